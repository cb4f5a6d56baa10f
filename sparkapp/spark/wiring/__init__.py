"""Builds an attempt: its checks, and the order of its start."""
