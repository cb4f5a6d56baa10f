"""``spec.onTransformError`` in a task: leaves out the records for which the function of ``transform.arrow`` raises.

Such records go to the write stage of the task through a file, as records that do not parse do. So they are written or
counted in the transaction of their neighbours, in both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.dataplane.statistics import TOTALS
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.spec import Job
from sparkapp.sink.dead_letter import (
    ERROR,
    KIND,
    LETTER_SCHEMA,
    MAX_MESSAGE,
    PLACE,
    RAW_KEY,
    RAW_VALUE,
    STAGE,
    TRANSFORM,
    dead_letters,
)
from sparkapp.source import record_tally
from sparkapp.spark.frames.failed.failing_record import exception_name, exception_text, is_of_a_record, raised_text
from sparkapp.spark.frames.record_policy import catches, failed_records_of_task
from sparkapp.spark.frames.user_frames import frames_of, user_frame


def tell_nobody() -> None:
    """In a process whose totals are asked for."""


Function = Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class _Failure:
    """What the function raises for a row alone. The exception itself would keep the batch's parts."""

    row: int
    kind: str
    text: str
    place: str
    shown: str

    @classmethod
    def of(cls, row: int, error: Exception) -> _Failure:
        place = str(user_frame(frames_of(error)) or "")
        return cls(row, exception_name(error), exception_text(error, MAX_MESSAGE), place, raised_text(error))


class FailedRecords:
    """Made for a job whose policy is Skip or DeadLetter; pickled into the stage of a micro-batch.

    :param publish: tells the totals of the process, in a worker that no other stage asks for them.
    """

    def __init__(self, job: Job, publish: Callable[[], None]) -> None:
        self._job = job
        self._publish = publish
        self._writes = job.spec.record_errors.transform_policy is OnRecordError.DEAD_LETTER
        self._letters: pa.ipc.RecordBatchStreamWriter | None = None

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Around the batches of a task: its failed records reach the write stage at the end of the block."""
        with failed_records_of_task(self._job).writing() as self._letters:
            yield
            self._publish()

    def map(self, batch: pa.RecordBatch, function: Function) -> Generator[pa.RecordBatch, None, None]:
        """The results of the records for which the function does not raise, in order.

        The function gets the batch; and where it raises its halves, down to single records. So a batch without such a
        record costs one call, and one with k of n costs about 2 k log2(n/k) calls.

        :param batch: of the source, with the raw sides that :func:`sparkapp.spark.frames.record_policy.kept_columns`
            adds.
        :raises Exception: of the function, where no record is the cause.
        """
        given = batch.select(SOURCE_SCHEMA.names)
        failed: list[_Failure] = []
        parts = [(0, batch.num_rows)]
        while parts:
            first, count = parts.pop()
            try:
                results = list(function(given.slice(first, count)))
            except Exception as error:
                if not is_of_a_record(error) or not count:
                    raise
                if count == 1:
                    failed.append(_Failure.of(first, error))
                    continue
                half = count // 2
                parts += [(first + half, count - half), (first, half)]
            else:
                yield from results
        self._note(batch, failed)

    def _note(self, batch: pa.RecordBatch, failed: list[_Failure]) -> None:
        texts: list[str | None] = [None] * batch.num_rows
        for each in failed:
            texts[each.row] = each.shown
        errors = pa.array(texts, pa.string())
        record_tally.note(batch, errors, TOTALS.add, framed=None, topics_as=record_tally.TRANSFORM)
        if failed:
            assert self._letters is not None, "within collecting()"
            rows = batch.take(pa.array([each.row for each in failed], pa.int64()))
            self._letters.write_batch(self._dead_letters(rows, failed) if self._writes else _without_content(rows))

    def _dead_letters(self, rows: pa.RecordBatch, failed: list[_Failure]) -> pa.RecordBatch:
        names = ("topic", "partition", "offset", "timestamp", "headers")
        columns: dict[str, Any] = {name: rows.column(name) for name in names}
        for side, raw in (("key", RAW_KEY), ("value", RAW_VALUE)):
            columns[raw] = rows.column(raw if raw in rows.schema.names else side)
        columns[STAGE] = pa.array([TRANSFORM] * len(failed))
        columns[ERROR] = pa.array([each.text for each in failed])
        columns[KIND] = pa.array([each.kind for each in failed])
        columns[PLACE] = pa.array([each.place for each in failed])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return dead_letters(batch, job=f"{self._job.namespace}.{self._job.name}")


def _without_content(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each record that is only counted."""
    nothing = [pa.nulls(rows.num_rows, field.type) for field in LETTER_SCHEMA]
    return pa.RecordBatch.from_arrays(nothing, schema=LETTER_SCHEMA)


def failed_records_of(job: Job, publish: Callable[[], None] = tell_nobody) -> FailedRecords | None:
    """The policy's part in a task; None where a failure fails the task.

    :param publish: see :class:`FailedRecords`.
    """
    return FailedRecords(job, publish) if catches(job.spec) else None
