"""JSON merge patches (RFC 7386): only what changed goes to the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) from one object to another; empty where they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        previous = before.get(name)
        if isinstance(value, Mapping) and isinstance(previous, Mapping):
            inner = merge_patch(previous, value)
            if inner:
                patch[name] = inner
        elif previous != value or name not in before:
            patch[name] = value
    return patch
