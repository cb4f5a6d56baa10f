"""The class archive of Spark's JVMs: the image has it, and a laptop makes it at the first use of Spark."""
