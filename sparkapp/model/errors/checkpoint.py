"""Errors of the checkpoint document, of retained checkpoints and of operator state."""

from __future__ import annotations

from sparkapp.model.errors.base import (
    LIST_CHECKPOINTS,
    RESTART,
    SHOW_CHECKPOINT,
    STATE_VALID,
    KafkaSparkJobError,
)


class CheckpointError(KafkaSparkJobError):
    """The checkpoint document could not be read or written, for a cause without a reason of its own."""

    reason = "CheckpointFailed"


class CheckpointConflict(CheckpointError):
    """Another writer changed the document: a later attempt superseded this attempt, which must stop."""

    reason = "Superseded"
    default_remedy = "nothing to do: a later attempt of the job owns the checkpoint, or the next attempt will"


class CheckpointTooLarge(CheckpointError):
    """The document would exceed its byte budget."""

    reason = "CheckpointTooLarge"
    fatal = True
    condition = STATE_VALID
    default_remedy = "split the job: fewer partitions per job"


class CheckpointCorrupt(CheckpointError):
    """The document is unreadable, truncated, or breaks its schema; the job never starts from empty state instead."""

    reason = "StateCorrupt"
    fatal = True
    condition = STATE_VALID
    default_remedy = (
        "correct the document, or restore it from a backup. Without a backup, delete the job and create it again with"
        " source.startup.mode GroupOffsets (exactly once unless the transform shuffles). Or use SpecificOffsets with"
        f" the offsets of an earlier checkpoint, which you note before: {LIST_CHECKPOINTS} lists them,"
        " `checkpoint show ID` with the same arguments has the offsets"
    )


class CheckpointForeign(CheckpointError):
    """The document belongs to another job: its UID differs."""

    reason = "StateForeign"
    fatal = True
    condition = STATE_VALID
    default_remedy = "delete the foreign ConfigMap, or rename the job: kubectl delete configmap NAME-state -n NAMESPACE"


class IncarnationMismatch(CheckpointError):
    """Description, modules, pod, state and report of a driver do not belong together (ADR 64).

    Some of them are of a deleted job of the name. The driver has read no record and written nothing. The operator
    starts another attempt, with objects of its own.
    """

    reason = "IncarnationMismatch"
    default_remedy = (
        "nothing to do: another attempt starts by itself. If it fails so, too, list the owners of what has the job's"
        " name, and delete what another resource owns: kubectl get pods,configmaps -n NAMESPACE -l"
        " kafkaspark.io/job=NAME -o custom-columns=NAME:.metadata.name,OWNER:.metadata.ownerReferences[*].uid"
    )


class ClusterChanged(CheckpointError):
    """``kafka.bootstrapServers`` reaches another Kafka cluster than that of the checkpoint; the message has both ids.

    Offsets, group and transactions of one cluster mean nothing on another. Nothing was written.
    """

    reason = "ClusterChanged"
    fatal = True
    condition = STATE_VALID
    default_remedy = "set spec.kafka.bootstrapServers to the brokers of the checkpoint's cluster"


class StateRolledBack(CheckpointError):
    """The document is older than what the job has committed: somebody restored an earlier state.

    A start from it would write records again that readers have. Nothing was written.
    """

    reason = "StateRolledBack"
    fatal = True
    condition = STATE_VALID
    default_remedy = "restore the newest state, or set spec.restore to accept records that are written twice"


class CheckpointMissing(CheckpointError):
    """The state ConfigMap, which the operator creates, does not exist."""

    reason = "StateMissing"
    fatal = True
    condition = STATE_VALID
    default_remedy = CheckpointCorrupt.default_remedy


class CheckpointStoreUnavailable(CheckpointError):
    """The API server did not answer within the deadline. In a local run another process holds the document's lock."""

    reason = "CheckpointStoreUnavailable"
    default_remedy = "check the Kubernetes API server; the job restarts by itself"


class CheckpointRefused(CheckpointError):
    """The API server refuses the request: permissions, admission, an immutable ConfigMap; the message has its answer.

    The job restarts with backoff, because permissions can be granted meanwhile.
    """

    reason = "CheckpointRefused"
    default_remedy = (
        "check permissions, admission policies, quotas, and `immutable: true` in the ConfigMap:"
        " an immutable ConfigMap must be deleted and created again with the same data"
    )


class CheckpointUnusable(CheckpointError):
    """A retained checkpoint that cannot be restored: unreadable, or of another job; the message names it."""

    reason = "CheckpointUnusable"
    fatal = True
    default_remedy = (
        "set spec.restore.checkpoint to a checkpoint that `python3 -m sparkapp checkpoint verify --namespace"
        " NAMESPACE --job NAME` accepts, or remove spec.restore.checkpoint to resume from the last checkpoint"
    )


class CheckpointNotRetained(CheckpointError):
    """``spec.restore`` names a checkpoint that is not retained; the message lists the retained checkpoints."""

    reason = "CheckpointNotRetained"
    fatal = True
    default_remedy = (
        "set spec.restore.checkpoint to a retained checkpoint, or remove spec.restore.checkpoint to resume from the"
        " last checkpoint"
    )


class RestoreRefused(CheckpointError):
    """The job cannot be restored to an earlier checkpoint with this spec."""

    reason = "RestoreRefused"
    fatal = True
    default_remedy = "remove spec.restore.checkpoint: the job then resumes from its last checkpoint"


class QueryStateMissing(CheckpointError):
    """The transform keeps state, and the volume or bucket does not have the complete version of the checkpoint."""

    reason = "QueryStateMissing"
    fatal = True
    condition = STATE_VALID
    default_remedy = (
        "restore the volume of spec.checkpoint.stateVolume, or the objects in the bucket of"
        f" spec.checkpoint.state.storage.s3, then restart the job: {RESTART}. Without a backup, create a job with"
        f" another name, which starts with empty state, and source.startup.mode SpecificOffsets ({SHOW_CHECKPOINT} has"
        " the offsets). If the transform no longer keeps state, remove spec.checkpoint.stateVolume or"
        " spec.checkpoint.state.storage"
    )


class QueryStateIncompatible(CheckpointError):
    """The operators of the transform are not those of the state on the volume; the message has Spark's error."""

    reason = "QueryStateIncompatible"
    fatal = True
    condition = STATE_VALID
    default_remedy = (
        "revert the change of the transform (other operators, keys or columns under an aggregation, deduplication or"
        " join). A state variable takes further fields if sparkConf had"
        " spark.sql.streaming.stateStore.encodingFormat: avro from the start. Or create a job with another name, which"
        " starts with empty state, and source.startup.mode"
        f" SpecificOffsets ({SHOW_CHECKPOINT} has the offsets). If the transform no longer keeps state, remove"
        " spec.checkpoint.stateVolume or spec.checkpoint.state.storage"
    )


class RepartitionRefused(CheckpointError):
    """Query state cannot be divided into the partitions that ``spec.checkpoint.state.partitions`` asks for."""

    reason = "RepartitionRefused"
    fatal = True
    default_remedy = (
        "remove spec.checkpoint.state.partitions: the state keeps its partitions, and any parallelism runs with them."
        " Or create a job with another name, which starts with empty state, and source.startup.mode SpecificOffsets"
        f" ({SHOW_CHECKPOINT} has the offsets)"
    )
