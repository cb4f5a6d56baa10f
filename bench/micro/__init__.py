"""The cost of single parts: a micro-batch, a commit, the extension, the enumerator, a reader."""
