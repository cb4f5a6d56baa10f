"""Ends transactions that no checkpoint ends: lingering, orphaned, hanging. Proves the end of every transaction."""
