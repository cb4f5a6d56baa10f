"""A storm on the local cluster: faults, edits, snapshots and restores of a job, until a time is up; then the count."""
