"""Long lists in messages: the first few by name, the others by number. Pure."""

from __future__ import annotations

from collections.abc import Iterable

LIMIT = 5


def listed(texts: Iterable[str], limit: int = LIMIT, *, separator: str = ", ") -> str:
    """The first ``limit`` texts, then the number of the others."""
    every = list(texts)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return separator.join(every[:limit]) + more
