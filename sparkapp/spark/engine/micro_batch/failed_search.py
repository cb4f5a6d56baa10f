"""Finds all records of a checkpoint for which a transform fails, by batches of Spark over parts of it.

It is the search of :mod:`record_search`, which continues behind each record that it finds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaSparkJobError, RecordFailed, TransformFailed
from sparkapp.source.refused_record import ranges_of
from sparkapp.spark.engine.micro_batch.record_search import Splits, halves, run_or_error
from sparkapp.spark.frames.failed.failing_record import position_text
from sparkapp.spark.frames.failed.left_out import FoundRecord, failure_of, may_be_of_a_record

LOG = logging.getLogger(__name__)

MAX_RECORDS = 100
"""That the search finds in a checkpoint. Each costs some batches: more of them are the code's fault, or a service's."""
SECONDS = 120.0
"""For the whole search; a batch that is under way then is cancelled."""
_REMEDY = (
    "correct spec.transform. Or lower spec.source.limits.maxOffsetsPerCheckpoint, or write the transform as"
    " transform.arrow, which has no such limit"
)


class FailedSearch:
    """Made for a job with Skip or DeadLetter of ``onTransformError``.

    :param run: runs the transform over splits, and raises what it raises.
    :param cancel: ends the batch under way, from another thread.
    """

    def __init__(self, *, run: Callable[[Splits], None], cancel: Callable[[], None]) -> None:
        self._run = run
        self._cancel = cancel
        self._deadline = Deadline.after(SECONDS)
        self._found: list[FoundRecord] = []

    def find(self, error: TransformFailed, splits: Sequence[KafkaPartitionSplit]) -> tuple[FoundRecord, ...]:
        """The records, in the order of the splits. Called once.

        :param error: what the transform has raised for the splits.
        :raises TransformFailed: the error itself where no record is its cause, or no record fails alone.
        :raises RecordFailed: there are too many such records, or the time is over; it names the first.
        :raises Exception: of Spark or of Kafka.
        """
        rest = tuple(split for split in splits if split.size)
        LOG.info("looking for records among %d offsets: %s", sum(split.size for split in rest), error.message)
        self._deadline = Deadline.after(SECONDS)
        alarm = threading.Timer(SECONDS, self._cancel)
        alarm.start()
        raised: TransformFailed | None = error
        try:
            while raised is not None:
                rest = self._first(raised, rest)
                raised = self._raised(rest)
        except (RecordFailed, TransformFailed):
            raise
        except Exception as failure:
            if self._deadline.expired:
                raise self._ended(error, rest) from failure
            raise
        finally:
            alarm.cancel()
        LOG.warning("the transform fails for %d records, which are left out", len(self._found))
        return tuple(self._found)

    def _first(self, raised: TransformFailed, known: Splits) -> Splits:
        """Finds the first record of splits that fail; returns what is behind it."""
        whole, behind = raised, Splits()
        is_sure = False
        while sum(split.size for split in known) > 1:
            first, second = halves(known)
            found = self._raised(first)
            if found is None:
                known, is_sure = second, False
            else:
                raised, known, behind, is_sure = found, first, (*second, *behind), True
        if not is_sure:
            found = self._raised(known)
            if found is None:
                raise whole
            raised = found
        if not may_be_of_a_record(raised):
            raise raised
        (split,) = known
        if len(self._found) == MAX_RECORDS:
            raise self._ended(raised, known)
        self._found.append(FoundRecord(split.partition, split.start, failure_of(raised)))
        return behind

    def _raised(self, splits: Splits) -> TransformFailed | None:
        if self._deadline.expired:
            msg = "the time for the search is over"
            raise KafkaSparkJobError(msg)
        return run_or_error(self._run, splits) if splits else None

    def _ended(self, error: TransformFailed, rest: Splits) -> TransformFailed:
        if not self._found:
            return error
        first = self._found[0]
        text = (
            f"{position_text(*first.partition, first.offset, None)}: {first.failure.shown}; the transform fails for"
            f" {len(self._found)} records, and for {ranges_of(rest)}. spec.onTransformError leaves out at most"
            f" {MAX_RECORDS} records of a checkpoint, which the job finds within {SECONDS:.0f} s"
        )
        return RecordFailed(text, remedy=_REMEDY, detail=error.detail)
