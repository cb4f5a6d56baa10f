"""Commands for users: list, verify and restore a job's checkpoints; list, commit and abort its transactions."""
