"""Settings of the enumerator, taken from the job's source."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.model.job.sections.source import OnDataLoss, OnTopicDeleted
from sparkapp.model.job.spec import JobSpec
from sparkapp.source.offsets_initializer import OffsetsInitializer, stopping_initializer


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumeratorOptions:
    """Limits of the enumerator, and its policies for deleted topics and lost records.

    :param discovery_interval: seconds between discoveries; at most 0 discovers once, at the start.
    :param max_offsets: cap of one checkpoint, shared among partitions in proportion to their lag (case S39).
    :param max_rate: records a second of one partition; 0 is no limit.
    :param interval: seconds between checkpoints; a partition's first plan has their records under ``max_rate``.
    :param stopping: stopping offsets of a bounded job; None without them.
    :param ends_by_record: some record in each partition ends it (``source.stopping.predicate``): bounded, also without
        offsets to stop at.
    :param max_drift: seconds of record time that a partition may be read ahead of any other; 0 is no limit.
    """

    discovery_interval: float
    max_offsets: int
    max_rate: int = 0
    interval: float = 1.0
    max_drift: int = 0
    stopping: OffsetsInitializer | None = None
    ends_by_record: bool = False
    on_topic_deleted: OnTopicDeleted = OnTopicDeleted.FAIL
    on_data_loss: OnDataLoss = OnDataLoss.FAIL

    @property
    def is_bounded(self) -> bool:
        """Whether the job ends when it has read everything."""
        return self.stopping is not None or self.ends_by_record

    @classmethod
    def of(cls, spec: JobSpec) -> EnumeratorOptions:
        """Those of a job."""
        source = spec.source
        return cls(
            discovery_interval=source.discovery_interval_seconds,
            max_offsets=source.max_offsets_per_checkpoint,
            max_rate=source.max_rate_per_partition,
            interval=spec.checkpoint_interval,
            max_drift=source.max_drift_seconds,
            stopping=stopping_initializer(source.stopping),
            ends_by_record=bool(source.stopping.predicate),
            on_topic_deleted=source.on_topic_deleted,
            on_data_loss=source.on_data_loss,
        )
