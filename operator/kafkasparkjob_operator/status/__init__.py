"""The status of a job: conditions and reasons, as pure values."""
