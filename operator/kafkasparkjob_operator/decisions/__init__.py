"""Decisions of the state machine: pure functions from an observation to a plan."""
