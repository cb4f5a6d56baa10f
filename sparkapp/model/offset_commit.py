"""How group offsets move outside the subtasks' transactions; values, and what every way of it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.partition import TopicPartition


class Refusal(NamedTuple):
    """Why one partition's offset was not committed.

    :ivar may_pass: whether another try may succeed: a coordinator that moves, a group that is new.
    :ivar is_gone: whether the partition does not exist, so that no further try will.
    """

    error: KafkaSparkJobError
    may_pass: bool = False
    is_gone: bool = False


class OffsetSender(Protocol):
    """Commits offsets in the caller's thread; used by the offset committer, one commit at a time.

    ``sink.offset_transactions`` under EXACTLY_ONCE, ``source.plain_offsets`` otherwise.
    """

    def send(self, offsets: Mapping[TopicPartition, int], mark: str) -> Mapping[TopicPartition, Refusal]:
        """One try.

        :param mark: stored with each offset (``settlement.offset_mark``).
        :returns: the partitions whose offset may not have been committed.
        """
        ...

    def close(self) -> None: ...
