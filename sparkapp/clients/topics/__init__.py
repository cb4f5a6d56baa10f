"""Topics by name: their partitions, copies, settings and rights, and patterns of names."""
