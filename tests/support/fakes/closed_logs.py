"""Partition logs in which nothing is open, for units that are not about hanging transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NoReturn

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import LogScope, OpenInLogs
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.proven_ends import Ended

NO_TOPICS = LogScope(topics=frozenset())


class ClosedLogs:
    """Of a client's ``logs``. It counts the questions."""

    def __init__(self) -> None:
        self.asked: list[Collection[TopicPartition] | LogScope] = []

    def open_in(
        self, partitions: Collection[TopicPartition] | LogScope, *, deadline: Deadline | None = None
    ) -> OpenInLogs:
        self.asked.append(partitions)
        return OpenInLogs(open={})

    def group_partition(self, group_id: str, *, deadline: Deadline | None = None) -> TopicPartition | None:
        return None


class ClosedEnds:
    """Of :class:`sparkapp.sink.ending.proven_ends.ProvenEnds`: every end is proven at once. It records the ends."""

    def __init__(self) -> None:
        self.proven: list[Ended] = []

    def require(self, ends: Sequence[Ended], *, deadline: Deadline) -> None:
        self.proven += ends


class NothingHangs:
    """A client's part that a unit with closed logs never calls."""

    def __init__(self) -> None:
        self.logs = ClosedLogs()

    def fence_all(self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None) -> NoReturn:
        raise AssertionError(list(transactional_ids))

    def end_again(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError
