"""Checks of the state machine: which pods are the job's, whether its driver is heard, and whether its code changed."""
