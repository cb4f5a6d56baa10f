"""The micro-batch engine: one Spark batch is one checkpoint, and the driver's process decides each of them."""
