"""A job as the driver runs it: the resource's spec with every default filled in, bound to one attempt.

The operator reads it from the resource (``model.job.spec_from_resource``), checks it (``model.job.rules``) and renders
it into an immutable ConfigMap (``model.job.codec``). The driver reads it back.

A field's name, type, default and metadata are its only description (``model.encoding.schema``). The operator reads a
resource by it, and the CustomResourceDefinition is generated from it. The defaults are the meaning of a description of
another release: a new field has a default, and no default ever changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from sparkapp.model.checkpoint.naming import MAX_PARALLELISM
from sparkapp.model.delivery_guarantee import OffsetCommit, OffsetCommitMode, effective_offset_commit_mode
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.encoding.schema import Described, IntOrString, ObjectDefault, Rule, at, held_by, part
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.forms import OBJECT
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.record_errors import RecordErrors
from sparkapp.model.job.sections.retention import Restore, Retention
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.state_storage import S3Storage
from sparkapp.model.job.sections.transform import Transform


class Engine(StrEnum):
    """What runs the job's checkpoints."""

    AUTO = "Auto"
    """Continuous where it can run the job, else MicroBatch (``rules.engine_rules.chosen_engine``)."""
    MICRO_BATCH = "MicroBatch"
    """A Spark job for each checkpoint, with any transform."""
    CONTINUOUS = "Continuous"
    """Long-lived subtasks, for pipelines with an Arrow function, a narrow query or without a transform."""


MIN_METRICS_PORT = 1024
"""Lower ports need a capability that the pods do not have."""


@part
class Prometheus:
    """``metrics.prometheus``; the driver reads :attr:`JobSpec.metrics_port` instead."""

    enabled: bool = at("Switch of the endpoint. False opens no port.", default=True)
    port: int = at("TCP port of the endpoint.", default=8090, high=65535, low=MIN_METRICS_PORT)


def _metrics_port_from(metrics: Fields, name: str) -> int:
    prometheus = read_part(Prometheus, metrics.child(name))
    return prometheus.port if prometheus.enabled else 0


MIN_INTERVAL_MILLIS = 20
"""Each checkpoint opens a producer for each subtask and writes the document, which together take some 50 ms."""
MAX_INTERVAL_MILLIS = 3_600_000


def _millis_from(checkpoint: Fields, name: str) -> int:
    """:raises ConfigurationError: both units are used."""
    if checkpoint.has(name) and checkpoint.has("intervalSeconds"):
        msg = f"{checkpoint.path}: intervalSeconds and {name} exclude each other"
        raise ConfigurationError(msg, remedy=f"remove one of them from {checkpoint.path}")
    return checkpoint.integer(name, 0, low=MIN_INTERVAL_MILLIS, high=MAX_INTERVAL_MILLIS)


FOLLOW_PARALLELISM = "FollowParallelism"
_STATE_PARTITIONS = re.compile(r"FollowParallelism|[1-9][0-9]{0,3}")
_STATE_PARTITIONS_RULE = Rule(
    f"string(self).matches('^({_STATE_PARTITIONS.pattern})$')",
    f"checkpoint.state.partitions must be {FOLLOW_PARALLELISM} or a number from 1 to 9999",
)


def _state_partitions_from(state: Fields, name: str) -> str:
    """:raises ConfigurationError: neither the policy nor a number of partitions."""
    found = state.int_or_string(name)
    if found and not _STATE_PARTITIONS.fullmatch(found):
        msg = f"{state.path}.{name} must be {FOLLOW_PARALLELISM} or a number from 1 to 9999, not {found!r}"
        raise ConfigurationError(msg)
    return found


DEFAULT_PARALLELISM = 1
"""Subtasks of a job whose resource names no number."""
_NOT_ZERO = Rule("self >= 1", "parallelism must be at least 1: spec.suspend: true stops a job at a checkpoint")


@part
class JobSpec:
    """The whole job, defaults filled in.

    :param checkpoint_interval_millis: 0 for the other unit; read :attr:`checkpoint_interval`.
    :param state_claim: PersistentVolumeClaim for operators' state; a transform that keeps state needs one, or
        ``state_s3``.
    :param state_partitions: a number as text, or :data:`FOLLOW_PARALLELISM`; read :attr:`wanted_state_partitions`.
    :param metrics_port: TCP port of the driver's Prometheus endpoint; 0 for none.
    """

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "checkpoint": Described(
            "Checkpoints, which make progress durable. With sink.deliveryGuarantee ExactlyOnce, records"
            " become visible at a checkpoint, or at the commit of a subtask where commitIntervalMillis is"
            " set."
        ),
        "checkpoint.state": Described("State of the transform's operators.", ObjectDefault.NONE),
        "checkpoint.state.storage": Described(
            "Object store for the state of the transform's operators, instead of checkpoint.stateVolume.",
            ObjectDefault.NONE,
        ),
        "checkpoint.stateVolume": Described(
            "Volume for the state of a transform with an aggregation, deduplication or join. Driver and"
            " executors mount it."
        ),
        "metrics": Described("Metrics of the job."),
        "startFrom": Described(
            "Start of a new job, and of a new revision with upgrade.mode Stateless. Any other start of a job with a"
            " checkpoint ignores it."
        ),
    }

    start_snapshot: str = at(
        "Name of a KafkaSparkSnapshot in the namespace of the job. The first start begins at its offsets instead of"
        " source.startup, and later records are read and written by this job.",
        default="",
        path="startFrom.snapshot",
        required=True,
        form=OBJECT,
    )
    restore: Restore = at(
        "Restore of a retained checkpoint or of a snapshot. The job reads and writes all later records again.",
        default_factory=Restore,
    )
    parallelism: int = at(
        "Number of subtasks that read and write in parallel. A change, also by kubectl scale, drains"
        " the job at a checkpoint and resumes it there. With the continuous engine and"
        " checkpoint.commitIntervalMillis 0 the running attempt changes it in place.",
        default=DEFAULT_PARALLELISM,
        high=MAX_PARALLELISM,
        low=1,
        form=held_by(_NOT_ZERO),
    )
    engine: Engine = at(
        "Engine. MicroBatch: a Spark job for each checkpoint, with any transform. Continuous:"
        " long-lived subtasks that keep their Kafka clients, for jobs with transform.arrow, with SQL over"
        " single records, or without a transform. Auto: Continuous where it can run the job, else MicroBatch;"
        " status.engine shows the choice.",
        default=Engine.MICRO_BATCH,
    )
    checkpoint_interval_seconds: int = at(
        "Time from a checkpoint to the next, in seconds. Without intervalSeconds and intervalMillis it is 10 seconds.",
        default=10,
        low=1,
        high=3600,
        path="checkpoint.intervalSeconds",
        is_shown=False,
    )
    checkpoint_interval_millis: int = at(
        "Time from a checkpoint to the next, in milliseconds, instead of intervalSeconds. Each"
        " checkpoint reads and writes the state ConfigMap.",
        default=0,
        high=MAX_INTERVAL_MILLIS,
        low=MIN_INTERVAL_MILLIS,
        path="checkpoint.intervalMillis",
        reader=_millis_from,
    )
    commit_interval_millis: int = at(
        "Time from a commit of a subtask to its next, in milliseconds. Each subtask then commits its"
        " own transactions with the offsets inside, and checkpoints record these offsets. 0 commits"
        " the transactions of all subtasks together, at each checkpoint. Needs engine Continuous and"
        " sink.deliveryGuarantee ExactlyOnce.",
        default=0,
        low=0,
        high=60000,
        path="checkpoint.commitIntervalMillis",
    )
    retention: Retention = at(
        "Retention of earlier checkpoints, which restore can name.",
        default_factory=Retention,
        path="checkpoint.retention",
    )
    state_claim: str = at(
        "Name of a PersistentVolumeClaim that all pods of the job can mount.",
        default="",
        path="checkpoint.stateVolume.claimName",
        required=True,
        form=OBJECT,
    )
    state_partitions: str = at(
        "Partitions of the state of the transform's operators. FollowParallelism: as many as parallelism."
        " A number: that many, from 1 to 9999. The state is divided again at a start whose number differs. By"
        " default it keeps the number that it began with.",
        default="",
        path="checkpoint.state.partitions",
        kind=IntOrString,
        reader=_state_partitions_from,
        form=held_by(_STATE_PARTITIONS_RULE),
    )
    state_s3: S3Storage | None = at(
        "Bucket of a store with Amazon's S3 protocol. Needs the image with the clients of the store.",
        default=None,
        path="checkpoint.state.storage.s3",
        required=True,
    )
    kafka: KafkaCluster = at("Kafka cluster of the source, and of the sink unless sink.kafka names another.")
    source: Source = at("Records that the job reads. Exactly one of topics, topicPattern and partitions is set.")
    transform: Transform = at(
        "Transform of the records, in Python or SQL. Without it records pass through unchanged.", absent=None
    )
    record_errors: RecordErrors = at(default_factory=RecordErrors, path=".")
    sink: Sink = at("Destination of the result, and its delivery guarantee.")
    metrics_port: int = at(
        'HTTP endpoint of the driver\'s pod, /metrics at the container port "metrics".',
        default=0,
        path="metrics.prometheus",
        kind=Prometheus,
        reader=_metrics_port_from,
    )

    @property
    def has_local_pace(self) -> bool:
        """Whether subtasks commit transactions of their own, of which checkpoints are records (ADR 56)."""
        return self.commit_interval_millis > 0

    @property
    def sink_cluster(self) -> KafkaCluster:
        """The cluster of the sink's topics and of the transactions."""
        return self.sink.kafka or self.kafka

    @property
    def clusters(self) -> tuple[KafkaCluster, ...]:
        """The cluster of the source, and the sink's where it is another."""
        return (self.kafka,) if self.sink.kafka is None else (self.kafka, self.sink.kafka)

    @property
    def offset_commit_mode(self) -> OffsetCommitMode:
        """Where the group's offsets are committed. No transaction has offsets of another cluster's group (ADR 92)."""
        choice = self.source.offset_commit
        if self.sink.kafka is not None and choice is OffsetCommit.IN_TRANSACTION:
            choice = OffsetCommit.ON_CHECKPOINT
        return effective_offset_commit_mode(choice, self.sink.delivery_guarantee)

    @property
    def may_keep_state(self) -> bool:
        """Whether the job names a place for operators' state."""
        return bool(self.state_claim) or self.state_s3 is not None

    @property
    def wanted_state_partitions(self) -> int:
        """Partitions that operators' state is to have; 0 for as many as it has."""
        if self.state_partitions == FOLLOW_PARALLELISM:
            return self.parallelism
        return int(self.state_partitions or 0)

    @property
    def checkpoint_interval(self) -> float:
        """Seconds from a checkpoint to the next."""
        millis = self.checkpoint_interval_millis
        return millis / 1000 if millis else float(self.checkpoint_interval_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of a job: its resource by name, UID and generation, its number, and its spec.

    :param settles_only: the job is being deleted: the attempt settles its transactions and ends.
    :param removes_state: likewise, and it removes the job's query state before it ends.
    :param snapshots: checkpoints of the snapshots that the attempt may begin at, by their names, as retained texts.
    :param stateless: number of the first attempt that was to begin without the checkpoint (``spec.upgrade.mode``); 0
        for none. Attempts that follow have the same number until another change asks again.
    :param record_limits: ``max.message.bytes`` of topics that it writes; the driver sets them for its tasks.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    attempt: int
    spec: JobSpec
    settles_only: bool = False
    removes_state: bool = False
    stateless: int = 0
    snapshots: Mapping[str, str] = field(default_factory=dict)
    record_limits: Mapping[str, int] = field(default_factory=dict)
