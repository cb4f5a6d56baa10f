"""``spec.onTransformError`` of a plan: when a micro-batch fails, finds the records to leave out, and counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaSparkJobError, RecordFailed, TransformFailed
from sparkapp.model.job.spec import Job
from sparkapp.source.record_tally import TRANSFORM, Example, Group, Tally, counted
from sparkapp.spark.engine.micro_batch import failed_search
from sparkapp.spark.engine.micro_batch.failed_search import FailedSearch
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.engine.micro_batch.query import run_over
from sparkapp.spark.failures import original_error
from sparkapp.spark.frames.failed.left_out import FoundRecord, leaving_out
from sparkapp.spark.frames.record_policy import observed_tallies, searches
from sparkapp.spark.frames.transform import Function
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.reporting.liveness import StreamLiveness, step_seconds


class TransformPolicy:
    """Used by the write stage and the checkpoint runner, in Spark's stream thread.

    :param function: the user's; None for SQL.
    """

    def __init__(
        self,
        job: Job,
        *,
        spark: Spark,
        query_name: str,
        function: Function | None,
        planner: MicroBatchPlanner,
        liveness: StreamLiveness,
    ) -> None:
        self._job = job
        self._spark = spark
        self._query_name = query_name
        self._function = function
        self._planner = planner
        self._liveness = liveness
        self._found: tuple[FoundRecord, ...] = ()
        self._before: dict[str, Tally] = {}
        self._shown: set[str] = set()

    @contextmanager
    def without_failed(self, error: Exception) -> Iterator[None]:
        """Within the block, the micro-batch is written without the records for which its transform fails.

        :param error: of the first try to write it.
        :raises Exception: the error itself, where the policy does not apply; or see :meth:`FailedSearch.find`.
        """
        ours = error if isinstance(error, KafkaSparkJobError) else original_error(error)
        if not searches(self._job.spec) or not isinstance(ours, TransformFailed) or isinstance(ours, RecordFailed):
            raise error
        # Spark adds what the next try observes to what this try has.
        self._before = observed_tallies(self._job.spec, self._spark, self._query_name)
        self._liveness.enter(
            "the search for records that the transform fails for",
            failed_search.SECONDS + step_seconds(self._job.spec.sink),
        )
        context = self._spark.sparkContext
        run = partial(run_over, self._job, spark=self._spark, function=self._function, columns=self._planner.columns)
        search = FailedSearch(run=run, cancel=context.cancelAllJobs)
        self._found = search.find(ours, self._planner.splits)
        self._liveness.enter("the checkpoint without these records", step_seconds(self._job.spec.sink))
        with leaving_out(context, self._found):
            yield

    def take_counts(self, splits: tuple[KafkaPartitionSplit, ...]) -> tuple[Counter[str], dict[str, Tally]]:
        """Called when the micro-batch is written.

        :param splits: that it has read.
        :returns: its totals, as :mod:`sparkapp.source.record_tally` names them; and what a first try has observed.
        """
        totals: Counter[str] = Counter()
        if searches(self._job.spec):
            for topic in {split.partition.topic for split in splits if split.size}:
                bad = [each for each in self._found if each.partition.topic == topic]
                size = sum(split.size for split in splits if split.partition.topic == topic)
                is_shown = topic in self._shown or not bad
                self._shown |= set() if is_shown else {topic}
                example = (
                    None
                    if is_shown
                    else Example(topic, bad[0].partition.partition, bad[0].offset, bad[0].failure.shown)
                )
                totals.update(counted(Group(TRANSFORM, topic), size - len(bad), len(bad), example))
        before, self._before, self._found = self._before, {}, ()
        return totals, before
