"""The second read of a checkpoint's offsets: for dead letters that are read apart (ADR 107)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import TransactionError, TransformError
from sparkapp.model.job.spec import Job
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.frames.failed.letters_apart import with_letters
from sparkapp.spark.frames.query_plan import observed_by_each, observed_of
from sparkapp.spark.frames.record_policy import OBSERVATION, Judgement, framed_side, judgement
from sparkapp.spark.frames.records import letters_of
from sparkapp.spark.tasks.data_source import table_of


class SecondRead:
    """Used by the write stage, in Spark's stream thread.

    Both reads judge each record, and must judge it alike: what only one of them can parse would be lost, or be there
    twice. Text has one meaning. A schema may reach the registry between the reads. So where records name their schemas,
    the counts of both reads are compared before the checkpoint is completed.

    :ivar columns: the source's columns that letters use; set by the engine's query before it starts. None where no
        letters are read apart.
    """

    def __init__(self, job: Job, *, spark: SparkSession, planner: MicroBatchPlanner, query_name: str) -> None:
        self.columns: frozenset[str] | None = None
        self._job = job
        self._spark = spark
        self._planner = planner
        self._query_name = query_name
        self._letters: DataFrame | None = None
        self._before: list[Judgement] = []

    @property
    def is_needed(self) -> bool:
        """Whether letters are read apart."""
        return self.columns is not None

    def added(self, result: DataFrame, tasks: int) -> DataFrame:
        """The result of the batch under way, with its letters; called for each try to write it.

        :param tasks: partitions of the result. A task has the letters of what a subtask reads.
        """
        self._letters = None
        splits = self._planner.splits
        groups = list(self._planner.assigned(splits).by_subtask.values())
        if self.columns is None or not groups:
            return result
        records = table_of(self._job, divided(groups, splits, tasks), result.sparkSession, self.columns)
        self._letters = letters_of(records, self._job, result.schema)
        self._before = self._judged()
        return with_letters(result, self._letters)

    def require_agreement(self) -> None:
        """Called when the tasks of :meth:`added` are done.

        :raises TransformError: the transform has not read all of its input.
        :raises TransactionError: the reads disagree. The next attempt reads again.
        """
        if self._letters is None or not framed_side(self._job.spec):
            return
        letters = judgement(observed_of(self._letters, OBSERVATION))
        for number, judged in enumerate(self._judged()):
            found = judged.without(self._before[number]) if number < len(self._before) else judged
            if found[1:] == letters[1:]:
                continue
            if found.rows < letters.rows:
                msg = "the transform stopped before the end of its input: records that do not parse may be missed"
                raise TransformError(
                    msg, remedy="read every batch to its end in spec.transform, or set spec.onRecordError: Skip"
                )
            msg = (
                f"the transform finds {found.bad} of {found.rows} records that do not parse, and the dead letters"
                f" {letters.bad} of {letters.rows}. The schema registry got a schema meanwhile, or a task ran twice"
            )
            raise TransactionError(msg)

    def _judged(self) -> list[Judgement]:
        """By each read of the transform, in all tries of this batch."""
        if not framed_side(self._job.spec):
            return []
        return [judgement(counts) for counts in observed_by_each(self._spark, self._query_name, OBSERVATION)]


def divided(
    groups: Sequence[tuple[KafkaPartitionSplit, ...]], splits: Iterable[KafkaPartitionSplit], tasks: int
) -> list[tuple[KafkaPartitionSplit, ...]]:
    """What each task reads. Pure.

    :param groups: of the subtasks, in their order. As many or more tasks have the same.
    :param splits: of the checkpoint, not in pieces. Fewer tasks share them, because a task has no two pieces of a
        partition.
    """
    if len(groups) <= tasks:
        return [*groups, *[()] * (tasks - len(groups))]
    whole = sorted(split for split in splits if split.size)
    return [tuple(whole[task::tasks]) for task in range(tasks)]
