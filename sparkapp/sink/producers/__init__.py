"""A process's producers: their pool, their opening in the background, and those that are kept."""
