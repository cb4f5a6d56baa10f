"""Decoders of the micro-batch: a side of the records in the job's format, and its error column."""
