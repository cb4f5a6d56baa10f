"""Requests of plans that concern other things than attempts: the end of a resource, and snapshots."""
