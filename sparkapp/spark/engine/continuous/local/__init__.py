"""The driver of the local pace (ADR 56)."""
