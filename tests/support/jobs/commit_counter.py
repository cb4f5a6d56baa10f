"""Counts commits of group offsets as the driver's progress does."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model.partition import TopicPartition


class CommitCounter:
    """An offset committer's callback."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0

    def on_complete(self, _: Mapping[TopicPartition, int], error: str) -> None:
        self.succeeded += not error
        self.failed += bool(error)
