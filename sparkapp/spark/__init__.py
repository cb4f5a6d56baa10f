"""The micro-batch engine: Structured Streaming drives reader, transform and writer; the only importer of pyspark."""
