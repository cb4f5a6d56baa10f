"""A source whose rate leaves plans without records, on a clock of the test's."""

from __future__ import annotations

from collections.abc import Callable

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import TopicListSubscriber
from sparkapp.source.offsets_initializer import EarliestOffsetsInitializer, no_warning
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.jobs.plain_job import plain_spec


class LimitedSource(FakeCluster):
    """A partition that never ends, of a job with a rate.

    :ivar read: records of completed checkpoints.
    """

    def __init__(self, rate: int, *, interval_millis: int, clock: Callable[[], float]) -> None:
        super().__init__({"in": 1}, ends={TopicPartition("in", 0): 10**9})
        source = Source(topics=("in",), group_id="g", max_rate_per_partition=rate)
        self.job = Job(
            namespace="n", name="job", uid="uid", generation=1, attempt=2,
            spec=plain_spec(source=source, engine=Engine.CONTINUOUS, checkpoint_interval_millis=interval_millis),
        )  # fmt: skip
        self.enumerator = KafkaSourceEnumerator(
            cluster=self, subscriber=TopicListSubscriber(source.topics), starting=EarliestOffsetsInitializer(),
            options=EnumeratorOptions.of(self.job.spec), warn=no_warning, clock=clock,
        )  # fmt: skip
        self.read = 0
        self.enumerator.start(None)

    def complete(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        self.enumerator.complete(splits)
        self.read += sum(split.size for split in splits)
