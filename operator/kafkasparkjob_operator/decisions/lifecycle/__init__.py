"""The end of a resource."""
