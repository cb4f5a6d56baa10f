"""Progress of an attempt: the report to the operator, events, and metrics."""
