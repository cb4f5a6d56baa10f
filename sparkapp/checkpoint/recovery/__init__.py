"""Recovery: what a start checks, settles and aborts before anything is produced."""
