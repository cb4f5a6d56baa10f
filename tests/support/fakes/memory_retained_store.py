"""A job's retained checkpoints in memory, for tests and benches of one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class MemoryRetainedStore:
    """A :class:`~sparkapp.checkpoint.retained.RetainedStore`."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self.texts = dict(texts or {})
        self.pins: set[int] = set()

    def read(self) -> dict[str, str]:
        return dict(self.texts)

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        self.texts.update(put)
        for key in drop:
            self.texts.pop(key, None)

    def pinned(self) -> Collection[int]:
        return self.pins
