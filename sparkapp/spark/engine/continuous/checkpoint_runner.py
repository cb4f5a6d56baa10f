"""Runs one checkpoint over the subtasks, from their work to the completed document."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import Completed, PreCommitted
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, assign
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import TransformFailed
from sparkapp.model.job.spec import Job
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.spark.engine.continuous.control_server import Answer, ControlServer
from sparkapp.spark.failures import original_error, while_reading
from sparkapp.spark.tasks.client_totals import merge
from sparkapp.spark.tasks.control_channel import Work
from sparkapp.spark.tasks.flush import require_delivered
from sparkapp.spark.tasks.write_task import WriteOrder, WriteResult, decode_result

LOG = logging.getLogger(__name__)

_TRIES = 4
"""Of a subtask at one checkpoint, as ``spark.task.maxFailures`` has it for a task."""

_LOOK_SECONDS = 0.1
"""Between two answers, seconds until the engine looks whether the subtasks still run."""


class CheckpointRunner:
    """Used by the engine, in its thread.

    :param await_subtasks: called while a subtask has not answered; raises why none will.
    :ivar clients: totals of the workers' Kafka clients, by worker.
    """

    def __init__(
        self,
        job: Job,
        *,
        server: ControlServer,
        enumerator: KafkaSourceEnumerator,
        coordinator: CheckpointCoordinator,
        await_subtasks: Callable[[], None],
    ) -> None:
        self._job = job
        self._server = server
        self._enumerator = enumerator
        self._coordinator = coordinator
        self._await_subtasks = await_subtasks
        self.clients: dict[str, Mapping[str, int]] = {}

    def run(self, splits: tuple[KafkaPartitionSplit, ...]) -> tuple[Completed | None, float]:
        """Completes the next checkpoint.

        :param splits: every known partition with the range of this checkpoint.
        :returns: the checkpoint, and the seconds since its begin.
        :raises KafkaSparkJobError: of a subtask that failed for good, or of the coordinator.
        """
        started = time.monotonic()
        checkpoint_id = self._coordinator.document.checkpoint_id + 1
        self._coordinator.prepare(splits)
        work, is_cut = self._work(splits, checkpoint_id)
        self._coordinator.before_flush(checkpoint_id)
        results = self._results(work, checkpoint_id)
        require_delivered(result.failure for result in results)
        completed = self._coordinator.complete(
            PreCommitted(
                checkpoint_id=checkpoint_id,
                splits=splits,
                topic_ids=self._enumerator.topic_ids,
                aligned=not is_cut,
                committables=tuple(result.committable for result in results if result.committable is not None),
                records_out=sum(result.records for result in results),
                records_skipped=sum(result.skipped for result in results),
                records_dead_lettered=sum(result.dead_letters for result in results),
            )
        )
        self._enumerator.complete(splits)
        return completed, time.monotonic() - started

    def _work(self, splits: tuple[KafkaPartitionSplit, ...], checkpoint_id: int) -> tuple[dict[int, Work], bool]:
        spec = self._job.spec
        groups, is_cut = assign(splits, spec.parallelism, spec.source.max_records_per_split)
        in_transaction = self._coordinator.mode is OffsetCommitMode.IN_TRANSACTION
        work = {
            subtask: Work(
                order=WriteOrder(
                    checkpoint_id=checkpoint_id,
                    subtask=subtask,
                    next_free=self._coordinator.next_free,
                    settled=checkpoint_id - 1,
                    writes_what_it_reads=True,
                    ranges=() if is_cut else ranges,
                    group_id=spec.source.group_id if in_transaction and not is_cut else None,
                ),
                splits=ranges,
            )
            for subtask, ranges in groups.items()
        }
        return work, is_cut

    def _results(self, work: Mapping[int, Work], checkpoint_id: int) -> list[WriteResult]:
        """The result of every subtask; a subtask that failed tries again."""
        orders = {subtask: part.order for subtask, part in work.items()}
        results: dict[int, WriteResult] = {}
        failures: Counter[int] = Counter()
        self._server.give(work)
        while len(results) < len(work):
            answer = self._server.answer(_LOOK_SECONDS)
            if answer is None:
                self._await_subtasks()
            elif answer.checkpoint_id == checkpoint_id and answer.failure:
                failures[answer.subtask] += 1
                self._try_again(answer, work[answer.subtask], failures[answer.subtask])
            elif answer.checkpoint_id == checkpoint_id:
                result = decode_result(answer.result, orders.__getitem__)
                merge(self.clients, result.clients)
                results[answer.subtask] = result
        return [results[subtask] for subtask in sorted(results)]

    def _try_again(self, answer: Answer, work: Work, failures: int) -> None:
        error = original_error(answer.failure)
        if failures >= _TRIES or error.fatal:
            raise while_reading(error, work.splits) if isinstance(error, TransformFailed) else error
        LOG.warning("subtask %d failed for the %d. time and tries again: %s", answer.subtask, failures, error.message)
        self._server.give({answer.subtask: work})
