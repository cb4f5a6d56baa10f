"""Finds the record for which a transform fails, by batches of Spark over smaller and smaller parts of the checkpoint.

A record's position is lost in the plan of a transform. So the driver plans the transform again, over the source as a
table with fixed offsets, and throws its rows away. It does so when the attempt has failed and has no open transaction.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaSparkJobError, RecordFailed, TransformFailed
from sparkapp.spark.failures import original_error, while_reading
from sparkapp.spark.frames.failed.failing_record import position_text

LOG = logging.getLogger(__name__)

SECONDS = 60.0
"""For the whole search; a batch that is under way then is cancelled."""

Splits = tuple[KafkaPartitionSplit, ...]


class RecordSearch:
    """Made by the engine for an error of its last checkpoint.

    :param run: runs the transform over splits, and raises what it raises.
    :param key_of: reads the key of the only record of a split.
    :param cancel: ends the batch under way, from another thread.
    :param wanted: whether the search is to continue; False once the driver is asked to stop.
    """

    def __init__(
        self,
        *,
        run: Callable[[Splits], None],
        key_of: Callable[[KafkaPartitionSplit], bytes | None],
        cancel: Callable[[], None],
        wanted: Callable[[], bool],
    ) -> None:
        self._run = run
        self._key_of = key_of
        self._cancel = cancel
        self._wanted = wanted

    def with_record(self, error: TransformFailed, splits: Sequence[KafkaPartitionSplit]) -> KafkaSparkJobError:
        """The error with the record that it is about; or else with the smallest range that is known to have it.

        :param splits: what the failed checkpoint has read.
        """
        read = tuple(split for split in splits if split.size)
        if not read:
            return error
        LOG.info("looking for the record among %d offsets: %s", sum(split.size for split in read), error.message)
        deadline = Deadline.after(SECONDS)
        alarm = threading.Timer(SECONDS, self._cancel)
        alarm.start()
        try:
            return self._search(error, read, deadline)
        except Exception as failure:  # of a cancelled batch, of Spark or of Kafka
            LOG.warning("the search for the record ended: %s", failure)
            return while_reading(error, read)
        finally:
            alarm.cancel()

    def _search(self, error: TransformFailed, read: Splits, deadline: Deadline) -> KafkaSparkJobError:
        found, known = error, read
        while sum(split.size for split in known) > 1:
            if deadline.expired or not self._wanted():
                return while_reading(found, known)
            first, second = halves(known)
            raised = run_or_error(self._run, first)
            # The second half is not tried: the last record is.
            found, known = (found, second) if raised is None else (raised, first)
        raised = run_or_error(self._run, known)
        if raised is None:
            whole = while_reading(error, read)
            text = f"{whole.message}; no record of them fails alone"
            return TransformFailed(text, remedy=error.remedy, detail=error.detail)
        (split,) = known
        position = position_text(*split.partition, split.start, self._key_of(split))
        return RecordFailed(f"{position}: {raised.message}", remedy=raised.remedy, detail=raised.detail)


def run_or_error(run: Callable[[Splits], None], splits: Splits) -> TransformFailed | None:
    """What the transform raises for the splits; None where it does not fail.

    :raises KafkaSparkJobError: it says nothing about a record.
    """
    try:
        run(splits)
    except Exception as error:
        ours = error if isinstance(error, KafkaSparkJobError) else original_error(error)
        if not isinstance(ours, TransformFailed):
            raise ours from error
        return ours
    return None


def halves(splits: Splits) -> tuple[Splits, Splits]:
    """The splits in two parts of the same size, in order; a split may be in both."""
    room = sum(split.size for split in splits) // 2
    first, second = [], []
    for split in splits:
        cut = split.start + min(room, split.size)
        room -= cut - split.start
        first.append(KafkaPartitionSplit(split.partition, split.start, cut))
        second.append(KafkaPartitionSplit(split.partition, cut, split.stop))
    return tuple(part for part in first if part.size), tuple(part for part in second if part.size)
