"""The last stage of a micro-batch: one write order for each task, and the answers of all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import TransactionError
from sparkapp.model.job.codec import encode_job
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.engine.micro_batch.second_read import SecondRead
from sparkapp.spark.engine.micro_batch.stream_state import StreamState
from sparkapp.spark.engine.micro_batch.transform_policy import TransformPolicy
from sparkapp.spark.frames.arrow_batches import RecordSizes, limited
from sparkapp.spark.frames.query_plan import is_aligned, partition_count
from sparkapp.spark.frames.record_policy import require_aligned
from sparkapp.spark.tasks.client_totals import merge, summed
from sparkapp.spark.tasks.flush import require_delivered
from sparkapp.spark.tasks.write_task import RESULT_DDL, WriteOrder, WriteResult, decode_result, write_partition

_TASK = "kafkaspark_task"


def _shuffled(frame: DataFrame, count: int) -> DataFrame:
    """The frame in fewer partitions, each with whole partitions of before in their order.

    A coalesce would have a task compute several partitions of state. An aggregation leaves its store open in the
    thread. Spark's provider for RocksDB takes it for the store of the next operator, and the task fails.
    """
    return frame.withColumn(_TASK, f.spark_partition_id()).repartitionById(count, _TASK).drop(_TASK)


class WriteStage:
    """Used by the checkpoint runner, in Spark's stream thread.

    :param policy: of records for which the transform fails.
    :param second_read: of the offsets of a checkpoint, for dead letters that no task has.
    :ivar clients: totals of the workers' Kafka clients, by worker.
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        *,
        planner: MicroBatchPlanner,
        stream: StreamState,
        policy: TransformPolicy,
        second_read: SecondRead,
    ) -> None:
        self._job = coordinator.job
        self._job_text = encode_job(coordinator.job)
        self._planner = planner
        self._stream = stream
        self._coordinator = coordinator
        self.policy = policy
        self._second_read = second_read
        self._sizes = RecordSizes()
        self.clients: dict[str, Mapping[str, int]] = {}

    def orders(
        self,
        frame: DataFrame,
        checkpoint_id: int,
        splits: tuple[KafkaPartitionSplit, ...],
        *,
        keeps_state: bool,
    ) -> tuple[DataFrame, list[WriteOrder], bool]:
        """One order for each partition of the frame: its subtask and, if it writes what it reads, its source ranges.

        :param keeps_state: whether the transform keeps state: a task may then write what was read long ago, even
            without a shuffle.
        :returns: the frame to write, its orders, and whether the document may say ``aligned``. It may not where a
            partition is cut among tasks: two transactions cannot both hold the partition's offset.
        :raises ConfigurationError: a policy needs tasks that write what they read, see :func:`require_aligned`.
        :raises TransactionError: Spark planned no task for splits with records.
        """
        parallelism = self._job.spec.parallelism
        groups, is_cut = self._planner.assigned(splits)
        order = partial(
            WriteOrder,
            checkpoint_id=checkpoint_id,
            next_free=self._coordinator.next_free,
            settled=self._stream.settled,
            reads_letters_apart=self._second_read.is_needed,
        )
        if not keeps_state and is_aligned(frame, len(groups)):
            group_id = None if is_cut else self._coordinator.group_id
            orders = [
                order(subtask=subtask, writes_what_it_reads=True, ranges=() if is_cut else ranges, group_id=group_id)
                for subtask, ranges in groups.items()
            ]
            return frame, orders, not is_cut
        if any(split.size for split in splits):
            require_aligned(self._job.spec, read_apart=self._second_read.is_needed)
        count = partition_count(frame)
        if groups and not count:
            msg = f"checkpoint {checkpoint_id}: Spark planned no task for the splits of {len(groups)} subtasks"
            raise TransactionError(msg)
        if count > parallelism:
            # Each writer needs transactional ids of its own, and only the subtasks below the parallelism have some.
            frame = _shuffled(frame, parallelism) if keeps_state else frame.coalesce(parallelism)
            count = parallelism
        orders = [order(subtask=index, writes_what_it_reads=False, ranges=(), group_id=None) for index in range(count)]
        return frame, orders, False

    def write(self, frame: DataFrame, orders: list[WriteOrder], checkpoint_id: int) -> list[WriteResult]:
        """Runs the write tasks up to their pre-commits; again without the records for which the transform fails.

        :raises TransactionError: not every task answered.
        :raises PreCommitFailed: a record was not delivered.
        :raises TransformError: and TransactionError, see :meth:`SecondRead.require_agreement`.
        :raises TransformFailed: and RecordFailed, see :meth:`TransformPolicy.without_failed`.
        """
        if not orders:
            return []
        self._coordinator.before_flush(checkpoint_id)
        try:
            return self._written(frame, orders, checkpoint_id)
        except Exception as error:
            with self.policy.without_failed(error):
                repeated = [replace(order, ends_earlier_try=True, reusable=None) for order in orders]
                return self._written(frame, repeated, checkpoint_id)

    def _written(self, frame: DataFrame, orders: list[WriteOrder], checkpoint_id: int) -> list[WriteResult]:
        task: Any = partial(write_partition, self._job_text, orders)
        # A row may have many letters, whatever the size of a record.
        with limited(frame.sparkSession, RecordSizes() if self._second_read.is_needed else self._sizes):
            rows = self._second_read.added(frame, len(orders)).mapInArrow(task, RESULT_DDL).collect()
        results = [decode_result(row.result, orders.__getitem__) for row in rows]
        if sorted(result.index for result in results) != list(range(len(orders))):
            msg = f"checkpoint {checkpoint_id}: {len(results)} answers came from {len(orders)} write tasks"
            raise TransactionError(msg)
        for result in results:
            merge(self.clients, result.clients)
        self._sizes.note(summed(self.clients))
        require_delivered(result.failure for result in results)
        self._second_read.require_agreement()
        return results
