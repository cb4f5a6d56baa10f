"""Group offset commits outside the subtasks' transactions: the sender's interface and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.partition import TopicPartition


class Refusal(NamedTuple):
    """The reason why the offset of a partition was not committed.

    :ivar may_pass: whether a retry may succeed, for instance while the coordinator moves or the group is new.
    :ivar is_gone: whether the partition does not exist, so that no retry can succeed.
    """

    error: KafkaSparkJobError
    may_pass: bool = False
    is_gone: bool = False


class OffsetSender(Protocol):
    """Commits offsets in the caller's thread; used by the offset committer, one commit at a time.

    ``sink.offset_transactions`` under ExactlyOnce, ``source.plain_offsets`` otherwise.
    """

    def send(self, offsets: Mapping[TopicPartition, int], mark: str) -> Mapping[TopicPartition, Refusal]:
        """Commits once, without a retry.

        :param mark: stored with each offset (``commit_outcome.offset_mark``).
        :returns: the partitions whose offset may not have been committed.
        """
        ...

    def close(self) -> None: ...
