"""The kinds of resources and their versions: all that a CustomResourceDefinition has except the fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.status.fields import JobStatus
from kafkasparkjob_operator.status.snapshot_fields import SnapshotSpec, SnapshotStatus
from kafkasparkjob_operator.workload.field_rules import OPERATOR_RULES
from kafkasparkjob_operator.workload.fields import OperatorSpec
from sparkapp.model import names
from sparkapp.model.encoding.schema import ObjectRule, Rule
from sparkapp.model.job.rules.access_rules import ACCESS_RULES
from sparkapp.model.job.rules.job_rules import JOB_RULES
from sparkapp.model.job.rules.property_rules import PROPERTY_RULES
from sparkapp.model.job.rules.sink_rules import SINK_RULES
from sparkapp.model.job.rules.source_rules import SOURCE_RULES
from sparkapp.model.job.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``.

    :param priority: 1 for a column of ``kubectl get -o wide``.
    """

    name: str
    path: str
    type: str = "string"
    text: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a kind.

    :param stored: the API server keeps resources in this version. The API server converts to
        the others: it drops fields that a version does not have, and fills in the defaults of the rest.
    :param spec: the dataclasses that have a part of the fields of ``spec`` each. :param status: likewise.
    :param rules: between the fields of ``spec``. :param own_rules: of the whole resource, for instance of its name.
    """

    name: str
    text: str
    spec_text: str
    spec: Sequence[type]
    status_text: str
    status: Sequence[type]
    columns: Sequence[Column]
    served: bool = True
    stored: bool = True
    rules: Sequence[ObjectRule] = ()
    own_rules: Sequence[Rule] = ()
    scale: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, and the file of its definition below ``crds/``."""

    name: str
    plural: str
    short_names: Sequence[str]
    head: str
    versions: Sequence[Version]

    @property
    def file(self) -> str:
        return f"{self.plural}.yaml"


_READY = '.status.conditions[?(@.type=="Ready")].status'
_RETAINED = '.status.conditions[?(@.type=="OffsetsRetained")].status'
_COLUMNS = (
    Column("Ready", _READY),
    Column("State", ".status.state"),
    Column("Reason", ".status.reason", text="Reason of the state. Between restarts it is the last failure's."),
    Column("Parallelism", ".status.parallelism", "integer"),
    Column("Checkpoint", ".status.checkpoint.id", "integer", "The last completed checkpoint."),
    Column("Lag", ".status.source.lagRecords", "integer", "Records not yet read."),
    Column("Restarts", ".status.restarts.total", "integer"),
    Column("Age", ".metadata.creationTimestamp", "date"),
    Column("In/s", ".status.source.recordsPerSecond", "integer", "Records read per second.", priority=1),
    Column("Out/s", ".status.sink.recordsPerSecond", "integer", "Records written per second.", priority=1),
    Column("Engine", ".status.engine.name", priority=1),
    Column("Attempt", ".status.attempt.id", "integer", priority=1),
    Column("Driver", ".status.attempt.driverPod", priority=1),
    Column("Sink", ".spec.sink.topic", priority=1),
    Column("Guarantee", ".spec.sink.deliveryGuarantee", priority=1),
    Column("Message", ".status.message", priority=1),
)
_NAME_RULES = (
    Rule(f"self.metadata.name.size() <= {names.MAX_JOB_NAME}", names.JOB_NAME_TOO_LONG),
    Rule(f"self.metadata.name.matches('^{names.JOB_NAME.pattern}$')", names.JOB_NAME_MALFORMED),
)

JOB = Kind(
    name=names.KIND,
    plural=names.PLURAL,
    short_names=("ksj",),
    head="KafkaSparkJob: one streaming job, Kafka -> transform -> Kafka, every record exactly once.",
    versions=(
        Version(
            name=names.VERSION,
            text="A streaming job that reads Kafka topics, transforms the records with PySpark and writes them to Kafka"
            " topics.",
            spec_text="Desired state of the job: its source, transform and sink, and the pods that run it.",
            spec=(JobSpec, OperatorSpec),
            status_text="Observed state of the job. Only the operator writes it.",
            status=(JobStatus,),
            columns=_COLUMNS,
            rules=(*JOB_RULES, *ACCESS_RULES, *SOURCE_RULES, *SINK_RULES, *PROPERTY_RULES, *OPERATOR_RULES),
            own_rules=_NAME_RULES,
            scale={
                "specReplicasPath": ".spec.parallelism",
                "statusReplicasPath": ".status.parallelism",
                "labelSelectorPath": ".status.selector",
            },
        ),
    ),
)
_SNAPSHOT_COLUMNS = (
    Column("Job", ".spec.jobRef.name"),
    Column("Checkpoint", ".status.checkpoint.id", "integer", "Number of the checkpoint that the snapshot holds."),
    Column("Ready", _READY),
    Column("Age", ".metadata.creationTimestamp", "date"),
    Column("Trigger", ".spec.trigger", text="Manual, or the cause for which the operator has made it.", priority=1),
    Column("State", ".status.state", priority=1),
    Column("Reason", ".status.reason", priority=1),
    Column("Retained", _RETAINED, text="False once Kafka has deleted records behind the offsets.", priority=1),
    Column("Time", ".status.checkpoint.time", "date", "Age of the checkpoint.", priority=1),
    Column("Message", ".status.message", priority=1),
)
SNAPSHOT = Kind(
    name=names.SNAPSHOT_KIND,
    plural=names.SNAPSHOT_PLURAL,
    short_names=("kss",),
    head="KafkaSparkSnapshot: a checkpoint of a KafkaSparkJob, which outlives the job.",
    versions=(
        Version(
            name=names.VERSION,
            text="A copy of the last completed checkpoint of a KafkaSparkJob. It outlives the job.",
            spec_text="Job of the snapshot. It cannot be changed.",
            spec=(SnapshotSpec,),
            status_text="Observed state of the snapshot. Only the operator writes it.",
            status=(SnapshotStatus,),
            columns=_SNAPSHOT_COLUMNS,
            rules=(
                ObjectRule(
                    "self == oldSelf",
                    "a snapshot cannot be changed: create another KafkaSparkSnapshot",
                    by_server=True,
                ),
            ),
            own_rules=(
                Rule(
                    "self.metadata.name.size() <= 200",
                    "metadata.name must have at most 200 characters: the ConfigMap adds its UID to it",
                ),
            ),
        ),
    ),
)
KINDS = (JOB, SNAPSHOT)
"""A further kind is an entry here, with dataclasses of its own."""
