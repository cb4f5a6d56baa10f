"""``spec.onTransformError`` in a task: leaves out the records for which the function of ``transform.arrow`` raises.

Such records go to the write stage of the task through a file, as records that do not parse do. So they are written or
counted in the transaction of their neighbours, in both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.dataplane.statistics import TOTALS
from sparkapp.model.job.spec import Job
from sparkapp.source import record_tally
from sparkapp.spark.frames.failed.failing_record import is_of_a_record
from sparkapp.spark.frames.failed.failure import Failure, file_rows
from sparkapp.spark.frames.record_policy import catches, failed_records_of_task, searches


def tell_nobody() -> None:
    """In a process whose totals are asked for."""


Function = Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]]


class FailedRecords:
    """Made for a job whose policy is Skip or DeadLetter; pickled into the stage of a micro-batch.

    :param publish: tells the totals of the process, in a worker that no other stage asks for them.
    """

    def __init__(self, job: Job, publish: Callable[[], None]) -> None:
        self._job = job
        self._publish = publish
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
        failed: dict[int, Failure] = {}
        parts = [(0, batch.num_rows)]
        while parts:
            first, count = parts.pop()
            try:
                results = list(function(given.slice(first, count)))
            except Exception as error:
                if not is_of_a_record(error) or not count:
                    raise
                if count == 1:
                    failed[first] = Failure.of(error)
                    continue
                half = count // 2
                parts += [(first + half, count - half), (first, half)]
            else:
                yield from results
        self._note(batch, failed)

    def _note(self, batch: pa.RecordBatch, failed: Mapping[int, Failure]) -> None:
        errors = pa.array([failed[row].shown if row in failed else None for row in range(batch.num_rows)], pa.string())
        record_tally.note(batch, errors, TOTALS.add, framed=None, topics_as=record_tally.TRANSFORM)
        if failed:
            assert self._letters is not None, "within collecting()"
            rows = batch.take(pa.array(list(failed), pa.int64()))
            self._letters.write_batch(file_rows(self._job, rows, list(failed.values())))


def failed_records_of(job: Job, publish: Callable[[], None] = tell_nobody) -> FailedRecords | None:
    """The policy's part in a task that calls the function; None where a failure fails the task.

    :param publish: see :class:`FailedRecords`.
    """
    return FailedRecords(job, publish) if catches(job.spec) and not searches(job.spec) else None
