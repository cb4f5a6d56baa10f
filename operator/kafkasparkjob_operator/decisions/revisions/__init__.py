"""Revisions of a job: refusals of changes, stable revisions, and the way back."""
