"""A pre-committed transaction, as the checkpoint document remembers it."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.model.errors import InvalidArgument
from sparkapp.model.split import KafkaPartitionSplit

MAX_PRODUCER_EPOCH = 32767


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCommittable:
    """Everything another process needs to commit the transaction: the wire's triple and what it covers.

    :param transactional_id: of the job's prefix; see :mod:`sparkapp.model.transaction_naming`.
    :param producer_id: the broker's number for the producer.
    :param producer_epoch: 0 to 32767; the epoch of the attempt that the driver counted.
    :param checkpoint_id: the checkpoint that it belongs to.
    :param attempt: the attempt that wrote it, noted by its coordinator when it makes the checkpoint final: only that
        one's marks on the group's offsets witness it. 0 where that is not known: before that, or written by a release
        that did not note it.
    :param subtask: the writer.
    :param records: records produced to the sink topic inside.
    :param dead_letters: records produced to the dead letter topic inside.
    :param start_time_ms: when it began, in the broker's wall clock, as the coordinator tells of it while it is open and
        still when it has ended: it tells the transactions of one producer apart, which the triple does not. 0 where
        that is not known: written by a release that did not ask.
    :param ranges: the source ranges whose end offsets are inside the same transaction; empty where the pipeline
        shuffles or cuts partitions, for a subtask's output then has no source ranges of its own. Read back from a
        document they end with its splits, which may be before that offset where a partition has ended.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    checkpoint_id: int
    subtask: int
    records: int
    attempt: int = 0
    dead_letters: int = 0
    start_time_ms: int = 0
    ranges: tuple[KafkaPartitionSplit, ...] = ()

    def __post_init__(self) -> None:
        if (
            not self.transactional_id
            or self.producer_id < 0
            or not 0 <= self.producer_epoch <= MAX_PRODUCER_EPOCH
            or min(self.checkpoint_id, self.subtask, self.records, self.dead_letters) < 0
            or min(self.start_time_ms, self.attempt) < 0
        ):
            msg = f"not a committable: {self}"
            raise InvalidArgument(msg)
