"""Watermarks by partition, subtask and job, in record time (ADR 54)."""
