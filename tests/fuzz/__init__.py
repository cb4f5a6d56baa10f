"""Damaged input for what reads bytes of other programs; ``python -m tests.fuzz --seconds 3600``."""
