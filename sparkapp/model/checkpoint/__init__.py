"""The checkpoint: the document, its codec, committables, splits, names of transactions, retained checkpoints."""
