"""A pre-committed transaction, as the checkpoint document records it."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.encoding.json_parts import MAX_INT, stored
from sparkapp.model.errors import InvalidArgument

MAX_PRODUCER_EPOCH = 32767


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCommittable:
    """The data that another process needs to commit a transaction: the triple of EndTxn, and the content.

    :param transactional_id: of the job's prefix; see :mod:`sparkapp.model.checkpoint.naming`.
    :param producer_id: the broker's number for the producer.
    :param producer_epoch: epoch of the writer's producer, 0 to 32767.
    :param checkpoint_id: checkpoint of the transaction.
    :param attempt: attempt that wrote the transaction, set by the checkpoint coordinator when the checkpoint becomes
        final. Only this attempt's marks on the group's offsets are evidence of the commit. 0 before that, and in
        documents of releases without it.
    :param subtask: the writer.
    :param records: records to the sink topic in the transaction.
    :param dead_letters: records to the dead letter topic in the transaction.
    :param start_time_ms: start of the transaction by the broker's wall clock, in milliseconds. The coordinator keeps it
        after the transaction's end, so it distinguishes transactions with the same triple. 0 in documents of releases
        without it.
    :param ranges: source ranges whose end offsets are in the transaction. Empty where the pipeline shuffles or cuts
        partitions, because the output of a subtask then has no source ranges of its own. Ranges of a decoded document
        end with its splits. That may be before the offset in the transaction where a partition has ended.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    checkpoint_id: int = stored(is_hidden=True)
    subtask: int
    records: int
    attempt: int = stored(default=0, high=MAX_INT)
    dead_letters: int = 0
    start_time_ms: int = 0
    ranges: tuple[KafkaPartitionSplit, ...] = stored(default=(), is_hidden=True)

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
