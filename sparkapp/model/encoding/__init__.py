"""Reading fields of resources, JSON and times from outside, and dataclasses as JSON."""
