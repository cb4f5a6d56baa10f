"""Spark's files on disk: the query log, rebuilt from the document, and the files of its state store."""
