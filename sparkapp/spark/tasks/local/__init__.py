"""Subtasks of the local pace (ADR 56)."""
