"""Offsets of the group that wait for the member's next commit."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkapp.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Tenure:
    """An offset of a partition under one assignment of it: worth nothing once the partition was revoked."""

    epoch: int
    offset: int


class PendingCommits:
    """Newer offsets replace waiting offsets; one commit is under way at a time. Used by the membership.

    :param condition: guards the state; the caller of every method holds it.
    """

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._waiting: dict[TopicPartition, Tenure] = {}
        self._sending = False
        self.mark = ""
        """Text that is stored with committed offsets."""

    @property
    def idle(self) -> bool:
        """Whether nothing waits and no commit is under way."""
        return not self._waiting and not self._sending

    def put(self, partition: TopicPartition, tenure: Tenure) -> None:
        self._waiting[partition] = tenure

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets waiting offsets of partitions that are not to be committed."""
        for partition in partitions:
            self._waiting.pop(partition, None)

    def clear(self) -> None:
        self._waiting = {}

    def take(self) -> dict[TopicPartition, int]:
        """The waiting offsets; a commit of them is under way until :meth:`sent`."""
        due = {partition: tenure.offset for partition, tenure in self._waiting.items()}
        self._sending = bool(due)
        return due

    def sent(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The commit is over. :param offsets: those that need no retry; newer waiting offsets stay."""
        for partition, offset in offsets.items():
            if partition in self._waiting and self._waiting[partition].offset == offset:
                del self._waiting[partition]
        self._sending = False
        self._condition.notify_all()

    def await_answer(self, timeout: float) -> bool:
        """Waits until no commit is under way. :returns: False after ``timeout`` seconds."""
        return self._condition.wait_for(lambda: not self._sending, timeout)
