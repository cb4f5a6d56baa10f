"""The write task: writes a subtask's records of a checkpoint into one transaction, up to pre-commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sparkapp.formats.encoders.record_encoder import RecordEncoder, encodes_result
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.encoding.json_parts import decode_part, encode_part, stored
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.spec import Job
from sparkapp.sink.producers.reusable_producers import CommittedTransaction
from sparkapp.spark.failures import printed

if TYPE_CHECKING:
    from sparkapp.sink.writer import KafkaWriter
    from sparkapp.spark.frames.failed.letters_apart import Letters

RESULT_SCHEMA = pa.schema([pa.field("result", pa.string())])
RESULT_DDL = "result STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """The write stage's order for one task; pickled into the stage's closure.

    :param next_free: base of the attempt's transactional ids by hint.
    :param settled: the newest checkpoint whose transactions are committed: slots up to it are free again.
    :param reusable: the subtask's ids whose producers may be used again, with their last transactions. None: the task
        keeps no producer.
    :param writes_what_it_reads: whether the task reads the source itself, without a shuffle in between. Then it also
        writes the dead letters of the records that it read.
    :param reads_letters_apart: whether dead letters of records that do not parse are among the rows instead.
    :param ranges: source ranges of the transaction. Empty after a shuffle, or if several tasks read a partition.
    :param group_id: group whose offsets are committed in the transaction, or None.
    :param ends_earlier_try: whether a try of this work may have written records that this try does not have. It then
        ends that transaction even if it has no record itself.
    """

    checkpoint_id: int
    subtask: int
    next_free: int
    settled: int
    writes_what_it_reads: bool
    reads_letters_apart: bool = False
    ranges: tuple[KafkaPartitionSplit, ...] = stored(default=(), is_hidden=True)
    group_id: str | None
    reusable: Mapping[str, CommittedTransaction] | None = None
    ends_earlier_try: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """A task's answer to the write stage.

    :param index: of the task.
    :param records: written; ``dead_letters`` are counted apart, and so are records that the task ``skipped``.
    :param committable: None without a transaction.
    :param failure: why the pre-commit failed, by :func:`printed`; only with ``deliveryGuarantee: None``.
    :param clients: totals of Kafka clients, by worker.
    :param stops: of an open checkpoint: where each split of the work ended.
    """

    index: int
    records: int
    dead_letters: int
    committable: KafkaCommittable | None
    skipped: int = 0
    failure: str = ""
    clients: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stops: tuple[int, ...] = ()


def write_partition(
    job_text: str, orders: Sequence[WriteOrder], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in an executor's Python worker as the last stage of the micro-batch (``DataFrame.mapInArrow``).

    :param job_text: the job's JSON.
    :param orders: for each partition of the result, in order.
    :param batches: of the partition, with the sink's columns; with ``sink.format`` the result's.
    :raises TransformError: dead letters are wanted, and the transform did not read its input to the end.
    :raises PreCommitFailed: and other errors of the writer. The task fails, and Spark retries it under a new epoch.
    """
    from pyspark import TaskContext

    from sparkapp.spark.frames.failed.letters_apart import parted
    from sparkapp.spark.frames.record_policy import attempt_key
    from sparkapp.spark.tasks import client_totals
    from sparkapp.spark.tasks.worker_clients import job_of

    context = TaskContext.get()
    if context is None:
        msg = "a write task needs Spark's task context"
        raise RuntimeError(msg)
    job, index = job_of(job_text), context.partitionId()
    rows = parted(batches) if orders[index].reads_letters_apart else batches
    if encodes_result(job.spec):
        encode = RecordEncoder(job.spec.sink).encode
        rows = (encode(each) if isinstance(each, pa.RecordBatch) else each for each in rows)
    result = write_batches(job, orders[index], rows, index=index)
    client_totals.publish(attempt_key(job))
    result = replace(result, clients=client_totals.collect(attempt_key(job)))
    yield pa.RecordBatch.from_pydict({"result": [encode_result(result)]}, schema=RESULT_SCHEMA)


def write_batches(
    job: Job,
    order: WriteOrder,
    batches: Iterable[pa.RecordBatch | Letters],
    *,
    index: int,
    ranges: Callable[[], tuple[KafkaPartitionSplit, ...]] | None = None,
    awaits_barrier: Callable[[], bool] = lambda: False,
) -> WriteResult:
    """Writes a subtask's records of a checkpoint, up to the pre-commit; called in a worker by both engines.

    :param batches: with the sink's columns, and letters that were read apart.
    :param index: of the task.
    :param ranges: called behind the last batch: source ranges of the transaction, where the order does not know them.
    :param awaits_barrier: whether there is time for what the pre-commit would wait for.
    :raises TransformError: and other errors, see :func:`write_partition`.
    """
    from sparkapp.spark.frames.record_policy import write_failed, write_letters

    writer = writer_for(job, order)
    writer.notify_committed(order.settled, reusable=order.reusable)
    writer.begin(order.checkpoint_id)
    if not order.ranges or any(split.size for split in order.ranges):
        writer.prepare()
    if order.ends_earlier_try:
        writer.fence()
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            write_letters(job, writer, batch.rows)
        elif batch.num_rows:
            if awaits_barrier():
                writer.note_start()
            writer.write(batch)
    skipped = 0
    if order.writes_what_it_reads:
        skipped = write_failed(job, writer, read_apart=order.reads_letters_apart)
    committable, failure = None, ""
    try:
        committable = writer.pre_commit(
            order.ranges if ranges is None else ranges(),
            group_id=order.group_id,
            metadata=offset_mark(job.uid, job.attempt, order.checkpoint_id),
        )
    except KafkaSparkJobError as error:
        if writer.repeats:
            raise
        # No task has these records any more: a retry would succeed and hide the failure.
        failure = printed(error)
    return WriteResult(
        index=index,
        records=writer.records,
        dead_letters=writer.dead_letters,
        committable=committable,
        skipped=skipped,
        failure=failure,
    )


def writer_for(job: Job, order: WriteOrder) -> KafkaWriter:
    """The writer of an order, with the producers of the worker process."""
    from sparkapp.sink.delivery import writer_of
    from sparkapp.spark.tasks.worker_clients import producers_for, router_for

    return writer_of(
        job.spec.sink,
        pool=producers_for(job),
        subtask=order.subtask,
        next_free=order.next_free,
        router=router_for(job, start=order.subtask + order.checkpoint_id),
    )


def encode_result(result: WriteResult) -> str:
    """The answer as JSON text."""
    return json.dumps(encode_part(result))


def decode_result(text: str, order_of: Callable[[int], WriteOrder]) -> WriteResult:
    """Reads a task's answer; its committable has the checkpoint and the ranges of the task's order.

    :param order_of: gives the order of a task's index.
    """
    body = json.loads(text)
    committable = body.pop("committable")
    result = decode_part(WriteResult, body, "result", committable=None)
    if committable is None:
        return result
    order = order_of(result.index)
    found = decode_part(
        KafkaCommittable, committable, "committable", checkpoint_id=order.checkpoint_id, ranges=order.ranges
    )
    return replace(result, committable=found)
