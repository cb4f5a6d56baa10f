"""Ends transactions that no checkpoint ends: lingering, orphaned, hanging, lost. Proves each end at the leaders."""
