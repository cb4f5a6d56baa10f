"""The data plane over the C extension."""
