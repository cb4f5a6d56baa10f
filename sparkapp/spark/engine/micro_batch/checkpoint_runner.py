"""Runs one micro-batch as one checkpoint, from its write tasks to the completed document."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import replace

from pyspark.sql import DataFrame

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, cut_at
from sparkapp.model.errors import ConfigurationError, KafkaSparkJobError, TransformFailed
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.partition import TopicPartition
from sparkapp.source.record_tally import TOPIC, Group, Tally, counted
from sparkapp.spark.engine.interface import EngineParts
from sparkapp.spark.engine.micro_batch.growing_state import growing_state
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.engine.micro_batch.stream_state import StreamState
from sparkapp.spark.engine.micro_batch.write_stage import WriteStage
from sparkapp.spark.failures import original_error, while_reading
from sparkapp.spark.frames.end_of_stream import stops_found
from sparkapp.spark.frames.query_plan import late_rows, next_watermark, stateful_nodes
from sparkapp.spark.frames.record_policy import observed_tallies
from sparkapp.spark.reporting.liveness import StreamLiveness, step_seconds
from sparkapp.spark.state import query_log
from sparkapp.spark.tasks.client_totals import merge

LOG = logging.getLogger(__name__)


class CheckpointRunner:
    """The function of Spark's ``foreachBatch``; Spark's stream thread calls :meth:`run_batch` over Py4J.

    :ivar late_rows: rows of this attempt that the transform dropped as later than the watermark.
    :ivar growing_state: see :attr:`sparkapp.spark.engine.interface.Engine.growing_state`.
    :ivar busy_seconds: of this attempt's completed checkpoints.
    """

    def __init__(
        self,
        parts: EngineParts[CheckpointCoordinator],
        *,
        log: query_log.QueryLog,
        query_name: str,
        planner: MicroBatchPlanner,
        stream: StreamState,
        write_stage: WriteStage,
        liveness: StreamLiveness,
    ) -> None:
        self._parts = parts
        self._job = parts.job
        self._spark = parts.spark
        self._coordinator = parts.coordinator
        self._log = log
        self._query_name = query_name
        self._planner = planner
        self._stream = stream
        self._write_stage = write_stage
        self._liveness = liveness
        self._keeps_state: bool | None = None
        self._counts: Counter[str] = Counter()
        self._shown: set[str] = set()
        """Topics of which a record that does not parse is among the counts."""
        self.late_rows = 0
        self.growing_state: tuple[str, ...] = ()
        self.busy_seconds = 0.0

    @property
    def keeps_state(self) -> bool:
        """Whether the transform keeps state, as far as the plan of a batch has said."""
        return bool(self._keeps_state)

    def run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Completes the checkpoint of a batch; nothing after the stop.

        :raises RuntimeError: the checkpoint failed; :attr:`StreamState.failure` has the error.
        """
        with self._stream.checkpoint() as allowed:
            if not allowed:
                return
            checkpoint_id = self._log.restored.base + batch_id + 1
            try:
                with self._liveness.during(f"checkpoint {checkpoint_id}", step_seconds(self._job.spec.sink)):
                    self._run(frame, checkpoint_id, batch_id)
            except Exception as error:
                # Spark searches the text of what is raised here with a regular expression. On a long trace it
                # overflows its stack, and the query ends without a reason. So a short error is raised instead.
                LOG.exception("checkpoint %d failed", checkpoint_id)
                ours = error if isinstance(error, KafkaSparkJobError) else original_error(error)
                # The engine adds the record or the range to an error of the transform.
                self._stream.fail(
                    ours if isinstance(ours, TransformFailed) else while_reading(ours, self._planner.splits)
                )
                msg = f"checkpoint {checkpoint_id} failed"
                raise RuntimeError(msg) from None

    def _run(self, frame: DataFrame, checkpoint_id: int, batch_id: int) -> None:
        if checkpoint_id <= self._coordinator.document.checkpoint_id:
            return
        is_stateful = self._check_state()
        enumerator = self._parts.enumerator
        started = time.monotonic()
        splits = self._planner.splits
        self._coordinator.prepare(splits)
        frame, orders, aligned = self._write_stage.orders(frame, checkpoint_id, splits, keeps_state=is_stateful)
        results = self._write_stage.write(frame, orders, checkpoint_id)
        engine = self._engine_state(batch_id, is_stateful=is_stateful)
        if is_stateful:
            self.late_rows += late_rows(self._spark, self._query_name)
            self._log.folder.settle(batch_id + 1, engine.state_partitions)
        skipped = self._note_records(splits)
        found = self._stops_found(splits)
        splits = cut_at(splits, found)
        completed = self._coordinator.complete(
            PreCommitted(
                checkpoint_id=checkpoint_id,
                splits=splits,
                stops={**enumerator.stops, **found},
                topic_ids=enumerator.topic_ids,
                aligned=aligned,
                committables=tuple(result.committable for result in results if result.committable is not None),
                records_out=sum(result.records for result in results),
                records_skipped=skipped + sum(result.skipped for result in results),
                records_dead_lettered=sum(result.dead_letters for result in results),
                engine=query_log.encode_engine(engine),
                engine_has_state=is_stateful,
            )
        )
        enumerator.complete(splits, found)
        self._planner.complete()
        self._stream.complete(checkpoint_id)
        seconds = time.monotonic() - started
        self.busy_seconds += seconds
        if completed is not None:
            self._parts.completed(completed, seconds)

    def _note_records(self, splits: tuple[KafkaPartitionSplit, ...]) -> int:
        """Adds the batch's counts of records to the totals of the workers; returns how many do not parse."""
        totals, before = self._write_stage.policy.take_counts(splits)
        self._counts.update(totals)
        found = {
            topic: tally._replace(
                parsed=tally.parsed - before.get(topic, Tally()).parsed, bad=tally.bad - before.get(topic, Tally()).bad
            )
            for topic, tally in observed_tallies(self._job.spec, self._spark, self._query_name).items()
        }
        for topic, tally in found.items():
            shown = topic in self._shown or tally.example is None
            self._shown |= set() if shown else {topic}
            group = Group(TOPIC, topic or "of the job")
            self._counts.update(counted(group, tally.parsed, tally.bad, None if shown else tally.example))
        merge(self._write_stage.clients, {"the driver": dict(self._counts)})
        skips = self._job.spec.record_errors.policy is OnRecordError.SKIP
        return sum(tally.bad for tally in found.values()) if skips else 0

    def _check_state(self) -> bool:
        """Whether the transform keeps state, asked of the first batch's plan.

        :raises ConfigurationError: it does, and the job has no place for it.
        """
        if self._keeps_state is None:
            nodes = list(stateful_nodes(self._spark, self._query_name))
            self._keeps_state = bool(nodes)
            self.growing_state = growing_state(nodes)
        if self._keeps_state and not self._log.outlives_driver:
            msg = "the transform keeps state (an aggregation, deduplication or join): the job has no place for it"
            raise ConfigurationError(
                msg, remedy="use a transform without state, or name a volume in spec.checkpoint.stateVolume.claimName"
            )
        return self._keeps_state

    def _stops_found(self, splits: tuple[KafkaPartitionSplit, ...]) -> dict[TopicPartition, int]:
        readers = len(self._planner.assigned(splits).by_subtask)
        stops = stops_found(self._job.spec, self._spark, self._query_name, readers)
        for partition, stop in sorted(stops.items()):
            LOG.info("source.stopping.predicate ends %s at offset %d", partition, stop - 1)
        return stops

    def _engine_state(self, batch_id: int, *, is_stateful: bool) -> query_log.EngineState:
        state = query_log.EngineState(
            plan=self._planner.plan,
            metadata=self._log.folder.metadata(batch_id),
            base=self._log.restored.base,
        )
        if not is_stateful:
            return state
        return replace(
            state,
            watermark=next_watermark(self._spark, self._query_name),
            previous_watermark=query_log.watermark_before(self._log.folder, batch_id),
            attempt=self._job.attempt,
        )
