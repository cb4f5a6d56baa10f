"""Schedules in which partitions have no leader: what is struck, when, and what the partitions' logs say in the end."""
