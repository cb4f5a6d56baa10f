"""The writing end of a task: one subtask's records of one checkpoint into one transaction, up to pre-commit."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.semantic import Semantic
from sparkapp.model.settlement import offset_mark
from sparkapp.model.split import KafkaPartitionSplit

RESULT_SCHEMA = pa.schema([pa.field("result", pa.string())])
RESULT_DDL = "result STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """What the coordinator tells one task; pickled into the stage's closure.

    :param next_free: base of the life's transactional ids by hint.
    :param settled: the newest checkpoint whose transactions are committed: slots up to it are free again.
    :param writes_what_it_reads: whether the task reads the source itself, without a shuffle in between; then it has the
        dead letters of what it read, too.
    :param ranges: what it reads; empty where the transaction cannot answer for it: after a shuffle, or where several
        tasks read one partition.
    :param group_id: group whose offsets go into the transaction, or None.
    :param hold_seconds: fault tests only: wait this long with records produced and nothing flushed.
    """

    checkpoint_id: int
    subtask: int
    next_free: int
    settled: int
    writes_what_it_reads: bool
    ranges: tuple[KafkaPartitionSplit, ...]
    group_id: str | None
    hold_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a task tells the coordinator. ``committable`` is None without a transaction.

    :param clients: totals of the Kafka clients of the executor's workers.
    :param failure: why the pre-commit failed, as Python prints an exception; with ``semantic: NONE`` alone.
    """

    index: int
    records: int
    dead_letters: int
    committable: KafkaCommittable | None
    failure: str = ""
    clients: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def write_partition(
    job_text: str, orders: Sequence[WriteOrder], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in an executor's Python worker as the last stage of the micro-batch (``DataFrame.mapInArrow``).

    :param orders: one a partition of the result, in order.
    :raises TransformError: dead letters are wanted and the transform did not read its input to the end.
    :raises PreCommitFailed: and what the writer raises; the task fails and Spark tries it again under a new epoch.
    """
    from pyspark import TaskContext

    from sparkapp.sink.writer import KafkaWriter
    from sparkapp.spark import client_totals
    from sparkapp.spark.record_policy import diverts, hand_over_of_task, life_of
    from sparkapp.spark.worker_clients import job_of, producers_for, router_for

    context = TaskContext.get()
    if context is None:
        msg = "a write task needs Spark's task context"
        raise RuntimeError(msg)
    index = context.partitionId()
    order = orders[index]
    job = job_of(job_text)
    writer = KafkaWriter(
        job.spec.sink,
        pool=producers_for(job),
        subtask=order.subtask,
        parallelism=job.spec.parallelism,
        next_free=order.next_free,
        router=router_for(job, start=order.subtask + order.checkpoint_id),
    )
    writer.notify_committed(order.settled)
    writer.begin(order.checkpoint_id)
    if not order.ranges or any(split.size for split in order.ranges):
        writer.prepare()
    for batch in batches:
        if batch.num_rows:
            writer.write(batch)
    if diverts(job.spec) and order.writes_what_it_reads:
        for letters in hand_over_of_task(life_of(job)).take():
            writer.write_dead_letters(letters, topic=job.spec.record_errors.dead_letter_topic)
    if order.hold_seconds:
        time.sleep(order.hold_seconds)
    committable, failure = None, ""
    try:
        committable = writer.pre_commit(
            order.ranges, group_id=order.group_id, metadata=offset_mark(job.uid, job.attempt, order.checkpoint_id)
        )
    except KafkaSparkJobError as error:
        if job.spec.sink.semantic is not Semantic.NONE:
            raise
        # The report is of records that no task has any more: tried again, the task would succeed and nobody be told.
        failure = printed(error)
    client_totals.publish(life_of(job))
    yield encode_result(
        WriteResult(
            index=index,
            records=writer.records,
            dead_letters=writer.dead_letters,
            committable=committable,
            failure=failure,
            clients=client_totals.collect(life_of(job)),
        )
    )


def printed(error: KafkaSparkJobError) -> str:
    """As Spark carries it from a task that fails; :func:`sparkapp.spark.failures.original_error` reads it."""
    return "".join(traceback.format_exception_only(error)).strip()


def encode_result(result: WriteResult) -> pa.RecordBatch:
    committable = result.committable
    body = {
        "index": result.index,
        "records": result.records,
        "dead_letters": result.dead_letters,
        "failure": result.failure,
        "clients": result.clients,
        "committable": None if committable is None else {k: v for k, v in asdict(committable).items() if k != "ranges"},
    }
    return pa.RecordBatch.from_pydict({"result": [json.dumps(body)]}, schema=RESULT_SCHEMA)


def decode_result(text: str, orders: Sequence[WriteOrder]) -> WriteResult:
    """Reads a task's answer back; the ranges are the ones that its order named."""
    body = json.loads(text)
    index = body["index"]
    committable = body["committable"]
    return WriteResult(
        index=index,
        records=body["records"],
        dead_letters=body["dead_letters"],
        failure=body["failure"],
        clients=body["clients"],
        committable=None if committable is None else KafkaCommittable(**committable, ranges=orders[index].ranges),
    )
