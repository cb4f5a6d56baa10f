"""The fields of a KafkaSparkSnapshot, and the reasons of its states.

They describe themselves as those of :mod:`sparkapp.model.job.spec` do (``sparkapp.model.encoding.schema``). The API
server drops other fields.
"""

from __future__ import annotations

from enum import StrEnum

from kafkasparkjob_operator.status.fields import Condition
from sparkapp.model.checkpoint.retained_codec import MAX_RETAINED_BYTES
from sparkapp.model.encoding.schema import at, items_of, part, text_of
from sparkapp.model.event_reason import ExplainedReason
from sparkapp.model.job.forms import OBJECT

MAX_TOPICS = 50
"""Topics that the status lists. The ConfigMap of the snapshot has the offsets of all."""


class SnapshotState(StrEnum):
    """``status.state``. A snapshot that is Ready or Failed never changes."""

    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class SnapshotTrigger(StrEnum):
    """``spec.trigger``: who has asked for the snapshot. The operator deletes no snapshot of a person."""

    MANUAL = "Manual"
    PERIODIC = "Periodic"
    """The operator, for ``spec.snapshots`` of the job."""
    UPGRADE = "Upgrade"
    """The operator, for ``spec.upgrade.snapshot``, before a new revision."""
    DELETION = "Deletion"
    """The operator, for ``spec.deletion.snapshot``."""


class SnapshotReason(ExplainedReason):
    """The reason of the conditions Ready and OffsetsRetained of a snapshot."""

    IMPORT_UNUSABLE = (
        "ImportUnusable",
        "`spec.checkpoint` is no checkpoint of a snapshot: it is damaged, or another release has written it. The"
        " message has the cause.",
        "Export the snapshot again, and create it with another name.",
    )
    PINNED = "Pinned", "The snapshot holds a checkpoint whose transactions are committed."
    CHECKPOINT_OPEN = (
        "CheckpointOpen",
        "The transactions of the job's last checkpoint are not proven committed yet, and no earlier checkpoint is"
        " retained. The operator looks again for 5 minutes.",
        "Let the job run, and create the snapshot again.",
    )
    GROUP_HAS_OFFSETS = (
        "GroupHasOffsets",
        "The job is a member of a consumer group (`source.groupMembership.mode: Subscribe`). The group has the"
        " offsets, and no checkpoint can be restored.",
        "Save the group's offsets with `kafka-consumer-groups.sh --describe`.",
    )
    HELD_BY_KAFKA = "HeldByKafka", "Kafka has the record at each offset of the snapshot, or will have it next."
    JOB_NOT_FOUND = (
        "JobNotFound",
        "No KafkaSparkJob of the namespace has the name of `spec.jobRef`. The operator looks again for 5 minutes.",
        "Create the snapshot again with the name of a job. `kubectl get ksj -n NAMESPACE` lists them.",
    )
    JOB_RECREATED = (
        "JobRecreated",
        "The job was deleted and created again before its checkpoint was copied.",
        "Create the snapshot again.",
    )
    NO_CHECKPOINT = (
        "NoCheckpoint",
        "The job has not completed a checkpoint yet. The operator looks again for 5 minutes.",
        "Create the snapshot again once `status.checkpoint.id` of the job is set.",
    )
    PIN_REFUSED = (
        "PinRefused",
        "Kubernetes refuses the ConfigMap of the snapshot. The message has its answer. The operator tries again for 5"
        " minutes.",
        "Remove the cause, for instance a quota, and create the snapshot again.",
    )
    RECORDS_DELETED = (
        "RecordsDeleted",
        "Retention has deleted records behind the offsets of the snapshot, or a topic was created again. A job that"
        " begins at it stops with `OffsetsWentBackwards` or `TopicRecreated`.",
        "Use a later snapshot, or begin with `source.onDataLoss: SkipToAvailable`. Raise the retention of the topic for"
        " the next.",
    )
    RETENTION_UNKNOWN = (
        "RetentionUnknown",
        "Nobody says where the partitions begin. The job of the snapshot is gone or has no driver at the moment, reads"
        " other topics, or more than 200 partitions.",
        "Compare the offsets with `kafka-get-offsets.sh --time earliest`.",
    )
    SNAPSHOT_NAME_TAKEN = (
        "SnapshotNameTaken",
        "A ConfigMap that the operator did not create has the name of the snapshot's ConfigMap.",
        "Delete the ConfigMap of the message, and create the snapshot again.",
    )
    STATE_NOT_RETAINED = (
        "StateNotRetained",
        "The transform keeps state, and no retained checkpoint has its version of that state. The operator looks again"
        " for 5 minutes.",
        "Set `checkpoint.retention.count` to 1 or more; a volume must have hard links. The event `CheckpointNotKept` of"
        " the job has the cause of a failure.",
    )
    STATE_UNREADABLE = (
        "StateUnreadable",
        "The state of the job cannot be read. The message has the cause.",
        "Repair the state of the job, and create the snapshot again.",
    )


@part
class JobReference:
    """``spec.jobRef``."""

    name: str = at("Name of the KafkaSparkJob, in the namespace of the snapshot.", form=OBJECT)
    uid: str | None = at(
        "UID of the KafkaSparkJob. A job of the name with another UID fails the snapshot. By default any job of the"
        " name.",
        default=None,
        form=text_of(1, 64),
    )


@part
class SnapshotSpec:
    """``spec``."""

    job_ref: JobReference = at(
        "Job whose last completed checkpoint the snapshot copies, or the job that wrote spec.checkpoint."
    )
    checkpoint: str | None = at(
        "Checkpoint of a snapshot that was exported, as `kafkaspark snapshot export` writes it. The snapshot then holds"
        " it, and needs no job: jobRef names the job that wrote it.",
        default=None,
        form=text_of(1, MAX_RETAINED_BYTES),
    )
    trigger: SnapshotTrigger = at(
        "Cause of the snapshot. The operator makes Periodic snapshots for spec.snapshots of a job. It makes Upgrade and"
        " Deletion snapshots for spec.upgrade.snapshot and spec.deletion.snapshot. It deletes no Manual snapshot.",
        default=SnapshotTrigger.MANUAL,
    )


@part
class SnapshotTopic:
    """An entry of ``status.checkpoint.topics``."""

    topic: str = at("Name of the topic.")
    partitions: int = at("Number of its partitions with an offset.", is_long=True)


@part
class SnapshotCheckpoint:
    """``status.checkpoint``."""

    id: int | None = at("Number of the checkpoint, in the job that wrote it.", default=None, is_long=True)
    time: str | None = at("Time of the checkpoint.", default=None, form={"format": "date-time"})
    attempt: int | None = at("Attempt of the job that wrote it.", default=None, is_long=True)
    cluster_id: str | None = at("Id of the Kafka cluster of the offsets. Absent where it is unknown.", default=None)
    partitions: int | None = at("Number of partitions with an offset.", default=None, is_long=True)
    state_folder: str | None = at(
        "Folder with the state of the job's operators, on the volume of the job. Absent for a job without state.",
        default=None,
    )
    topics: tuple[SnapshotTopic, ...] = at(
        f"Topics of the offsets, the first {MAX_TOPICS} by name.", default=(), form=items_of(0, MAX_TOPICS)
    )
    records_in: int | None = at(
        "Number of records that the job had read since its first start.", default=None, is_long=True
    )
    records_out: int | None = at("Number of records that it had written.", default=None, is_long=True)


@part
class SnapshotConfigMap:
    """``status.configMap``."""

    name: str | None = at("Name of the ConfigMap.", default=None)
    uid: str | None = at("UID of the ConfigMap. Another ConfigMap of the name is not used.", default=None)


@part
class SnapshotStatus:
    """``status``."""

    state: SnapshotState | None = at("State of the snapshot. Ready and Failed never change.", default=None)
    reason: str | None = at("Reason of the state, in CamelCase.", default=None)
    message: str | None = at("Cause of the state, and the remedy.", default=None)
    job_uid: str | None = at("UID of the job whose checkpoint it is.", default=None, path="jobUID")
    checkpoint: SnapshotCheckpoint | None = at("Checkpoint that the snapshot holds.", default=None)
    config_map: SnapshotConfigMap | None = at("Immutable ConfigMap with the offsets.", default=None)
    conditions: tuple[Condition, ...] | None = at(
        "Condition Ready: True once the snapshot holds a checkpoint. Condition OffsetsRetained: False once Kafka has"
        " deleted records behind its offsets, and Unknown where nobody says.",
        default=None,
        form={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
