"""``spec.onTransformError`` for a transform of DataFrames: tasks leave out the records that the driver has found.

A plan fails as a whole, and a record has no position in it. So the driver finds the records, and the tasks of the
repeated micro-batch do not give them to the transform. Tasks get their positions as a local property of Spark, because
the plan of a micro-batch is fixed when it fails.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from sparkapp.model.errors import TransformFailed
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.dead_letter import MAX_MESSAGE
from sparkapp.spark.frames.failed.failing_record import NOT_OF_A_RECORD, printable
from sparkapp.spark.frames.failed.failure import Failure, file_rows
from sparkapp.spark.frames.record_policy import failed_records_of_task, searches
from sparkapp.spark.frames.user_frames import user_error

PROPERTY = "kafkaspark.leftOut"
"""Spark's local property with the records; tasks get the properties of the thread that starts their Spark job."""
_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]*)\]")
"""The name of an error of Spark's expressions."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record for which the transform fails alone."""

    partition: TopicPartition
    offset: int
    failure: Failure


class LeftOut:
    """The records to leave out, by position.

    :param found: in any order.
    """

    def __init__(self, found: Iterable[FoundRecord]) -> None:
        self._found: dict[str, dict[int, dict[int, Failure]]] = {}
        for each in found:
            partitions = self._found.setdefault(each.partition.topic, {})
            partitions.setdefault(each.partition.partition, {})[each.offset] = each.failure

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch, list[Failure]]:
        """The rows to keep, the rows to leave out, and why.

        :param batch: with the columns ``topic``, ``partition`` and ``offset``.
        """
        positions = zip(*(batch.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        known: Mapping[int, Mapping[int, Failure]] = {}
        failures = [
            self._found.get(topic, known).get(partition, {}).get(offset) for topic, partition, offset in positions
        ]
        if not any(failures):
            return batch, batch.slice(0, 0), []
        kept = pa.array([failure is None for failure in failures])
        left = pa.array([failure is not None for failure in failures])
        return batch.filter(kept), batch.filter(left), [failure for failure in failures if failure is not None]

    def __bool__(self) -> bool:
        return bool(self._found)


def failure_of(error: TransformFailed) -> Failure:
    """What the transform has raised, from an error of :func:`sparkapp.spark.failures.original_error`."""
    shown = printable(" ".join(error.message.split()), MAX_MESSAGE)
    theirs = user_error(error.detail)
    if theirs is not None:
        kind, _, text = theirs.raised.partition(": ")
        return Failure(kind, printable(text, MAX_MESSAGE), str(theirs.frame), shown)
    name = _CLASS.search(error.message)
    return Failure(name.group(1) if name else "", shown, "", shown)


def may_be_of_a_record(error: TransformFailed) -> bool:
    """Whether a record can be the cause, as :func:`failing_record.is_of_a_record` says of an exception.

    The driver has the name of its class alone, and imports nothing for a name that comes from a task. A class that it
    does not know may be that of a service that is down.
    """
    if user_error(error.detail) is None:
        return True
    names = failure_of(error).kind.split(".")
    module = next((count for count in range(len(names) - 1, 0, -1) if ".".join(names[:count]) in sys.modules), 0)
    found: object = sys.modules[".".join(names[:module]) or "builtins"]
    for name in names[module:]:
        found = getattr(found, name, None)
    return isinstance(found, type) and not issubclass(found, NOT_OF_A_RECORD)


@contextmanager
def leaving_out(context: Any, found: Sequence[FoundRecord]) -> Iterator[None]:
    """Within the block, Spark jobs of this thread leave out the records.

    :param context: Spark's, of the driver.
    """
    rows = [[*each.partition, each.offset, asdict(each.failure)] for each in found]
    context.setLocalProperty(PROPERTY, json.dumps(rows))
    try:
        yield
    finally:
        context.setLocalProperty(PROPERTY, None)


def left_out_of_task(job: Job) -> LeftOut | None:
    """The records that this task leaves out; None for a job without them."""
    from pyspark import TaskContext

    if not searches(job.spec):
        return None
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(PROPERTY)
    return LeftOut(
        FoundRecord(TopicPartition(topic, partition), offset, Failure(**failure))
        for topic, partition, offset, failure in json.loads(text or "[]")
    )


def without_left_out(job: Job, left_out: LeftOut, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The source's batches of a task; the write stage of the task gets the other records, as those of a function.

    :param batches: with all columns, where any record is left out.
    """
    with failed_records_of_task(job).writing() as letters:
        for batch in batches:
            if not left_out:
                yield batch
                continue
            kept, rows, failures = left_out.split(batch)
            if failures:
                letters.write_batch(file_rows(job, rows, failures))
            if kept.num_rows:
                yield kept
