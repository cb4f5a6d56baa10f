"""Reading fields of resources, strict JSON from outside, and dataclasses as JSON."""
