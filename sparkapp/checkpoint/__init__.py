"""Checkpoints: the store of the document, recovery in the protocol's order, and the two-phase coordinator."""
