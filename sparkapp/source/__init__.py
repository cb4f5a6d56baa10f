"""The source: an enumerator on the driver that fixes splits, and what it needs to know of the cluster."""
