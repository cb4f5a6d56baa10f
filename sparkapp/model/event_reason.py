"""Reasons that a driver reports: of events, and of a condition. A report is untrusted, so each is one of these."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class ExplainedReason(StrEnum):
    """A reason with what a person reads about it, in the table of reasons of the documents (``make generate``).

    :ivar meaning: what has happened, in whole sentences.
    :ivar remedy: what to do; empty where nobody has to act.
    """

    meaning: str
    remedy: str

    def __new__(cls, reason: str, meaning: str, remedy: str = "") -> Self:
        member = str.__new__(cls, reason)
        member._value_ = reason
        member.meaning = meaning
        member.remedy = remedy
        return member


class DriverEvent(ExplainedReason):
    """The reason of an event, as ``kubectl get events`` shows it."""

    RUNNING = "Running", "The attempt runs. The event has its checkpoint and its engine."
    DRAINED = "Drained", "The driver has stopped after its last checkpoint."
    FINISHED = "Finished", "The driver has read to the end of a bounded job."
    CREDENTIALS_CHANGED = (
        "CredentialsChanged",
        "The Secrets of `spec.kafka` or `spec.sink.kafka` have new content. The attempt drains for it, and the next"
        " attempt uses it.",
    )
    CREDENTIALS_REFUSED = (
        "CredentialsRefused",
        "The Secrets of `spec.kafka` or `spec.sink.kafka` have new content that cannot be used yet. The job continues"
        " with the old content.",
        "Correct the Secret or the brokers' side of the change, as the message says. The driver tries again.",
    )
    CHECKPOINT_NOT_KEPT = (
        "CheckpointNotKept",
        "A completed checkpoint could not be kept for `spec.restore`. The job's own state is complete. If it was the"
        " last of a stop, a snapshot with the state of operators holds an earlier checkpoint.",
        "Look at the answer of Kubernetes in the message. The next checkpoint is kept if it allows it.",
    )
    METRICS_UNAVAILABLE = (
        "MetricsUnavailable",
        "The port of the driver's metrics could not be opened. The job runs without metrics.",
        "Set another `spec.metrics.prometheus.port`.",
    )
    OFFSET_OUT_OF_RANGE = (
        "OffsetOutOfRange",
        "An offset of the group or of `source.startup` is outside of its partition. The job begins where"
        " `onMissingOffset` says.",
        "Correct the offset, if the job must begin there.",
    )
    OFFSETS_SKIPPED = (
        "OffsetsSkipped",
        "Records were gone before they were read, and `source.onDataLoss` is `SkipToAvailable`. The message has the"
        " offsets.",
        "Raise the topic's `retention.ms` or `retention.bytes` to lose no more records.",
    )
    PARTITION_ADDED = "PartitionAdded", "The job reads a new partition."
    PARTITION_BEYOND_END = (
        "PartitionBeyondEnd",
        "The group has read a partition beyond its last stable offset. The job waits until the end is there.",
        "Let other members of the group read with `read_committed`. `kafka-consumer-groups.sh --reset-offsets` sets the"
        " group back.",
    )
    PARTITION_IGNORED = (
        "PartitionIgnored",
        "A partition is not read: a bounded job has fixed its end before the partition came.",
    )
    PARTITION_REMOVED = "PartitionRemoved", "A partition is no longer read: it is gone, or the spec has left it."
    PARTITIONS_ASSIGNED = "PartitionsAssigned", "The consumer group gives the job partitions."
    PARTITIONS_LOST = (
        "PartitionsLost",
        "The consumer group has taken partitions without asking. Their records since the last commit are repeated.",
        "Look for a driver that stood still. Or raise `sessionTimeoutSeconds` or `maxPollIntervalSeconds`.",
    )
    PARTITIONS_REVOKED = "PartitionsRevoked", "The job has given partitions back to its consumer group."
    RECORDS_DEAD_LETTERED = (
        "RecordsDeadLettered",
        "The first record of an attempt that does not parse, or that the transform fails for under `onTransformError`."
        " Since then all or many records of the job, a topic or a schema.",
        "Correct `spec.source.format`, `spec.transform`, or the program that writes the records.",
    )
    RECORDS_SKIPPED = (
        "RecordsSkipped",
        "As `RecordsDeadLettered`, without a dead letter topic.",
        "Correct `spec.source.format`, `spec.transform`, or the program that writes the records.",
    )
    RESTORE_IGNORED = (
        "RestoreIgnored",
        "`spec.restore` of a first start is served without a restore: the job has no earlier checkpoint.",
        "Raise `spec.restore.nonce` to restore a later checkpoint.",
    )
    RESTORED_FROM_CHECKPOINT = "RestoredFromCheckpoint", "The job begins again at the checkpoint of `spec.restore`."
    SPECIFIC_OFFSETS_UNUSED = (
        "SpecificOffsetsUnused",
        "`source.startup.specificOffsets` names partitions that the job does not read.",
        "Correct the names of topics and partitions.",
    )
    STARTED_FROM_SNAPSHOT = (
        "StartedFromSnapshot",
        "The first start of the job begins at the snapshot of `spec.startFrom`.",
    )
    STARTED_STATELESS = (
        "StartedStateless",
        "A new revision has begun without the checkpoint, as `spec.upgrade.mode: Stateless` asks for. The message has"
        " the checkpoint, and how many records are read again or skipped.",
    )
    STATE_EDITED = (
        "StateEdited",
        "Somebody has edited the state, or put an earlier state back. The message has each offset before and after.",
        "Undo the edit if nobody meant it.",
    )
    STATE_GROWS = (
        "StateGrows",
        "An operator of the transform keeps its state for ever, because no watermark ends it. Spark runs it all the"
        " same. The message has the operator.",
        "Follow the message, if there are ever new keys or rows. The state of few keys may stay.",
    )
    STATE_REPARTITIONED = (
        "StateRepartitioned",
        "Query state has another number of partitions, as `spec.checkpoint.state.partitions` asks for. The event has"
        " both numbers and the time that it took.",
    )
    SUBTASK_SILENT = (
        "SubtaskSilent",
        "A subtask of the continuous engine has said nothing for 10 s: its process is frozen or cut off. Spark starts"
        " it again.",
        "Nothing, once. If it repeats, look for a call in the function that keeps Python's global lock, and at the"
        " node.",
    )
    SUBTASKS_WAIT = (
        "SubtasksWait",
        "The executors have too few places for all subtasks, which the continuous engine runs at the same time.",
        "`kubectl get pods -n NAMESPACE` shows why an executor is pending, for instance for a quota.",
    )
    TOPIC_RECREATED = (
        "TopicRecreated",
        "A source topic was deleted and created again, and the job reads the new topic from its beginning.",
        "Nothing, if the topic was recreated on purpose.",
    )
    TRANSACTION_TIME_RUNS_OUT = (
        "TransactionTimeRunsOut",
        "The oldest open transaction has used 50 or 80 % of its time. At its end the brokers abort it.",
        "Raise `spec.sink.transactions.timeoutSeconds`, or lower `spec.source.limits.maxOffsetsPerCheckpoint`. With"
        " `checkpoint.commitIntervalMillis` lower that.",
    )
    TRANSACTIONS_ABORTED = (
        "TransactionsAborted",
        "Recovery has aborted lingering transactions of previous attempts.",
    )
    TRANSACTIONS_LOST = (
        "TransactionsLost",
        "The brokers have aborted transactions of the last checkpoint, and `sink.onTransactionLost` is `Replay`. The"
        " attempt reads the ranges of the message again.",
        "Look for the cause, for instance a time-out that is shorter than the job's last pause.",
    )
    TRANSACTIONS_NOT_DURABLE = (
        "TransactionsNotDurable",
        "A topic that the transactions write has too few copies, or the Kafka user lacks READ on it.",
        "Use the commands in the condition `TransactionsDurable`.",
    )
    OTHER = "DriverEvent", "An event with a reason that this operator does not know: of a newer image, or forged."

    @classmethod
    def of(cls, reason: str) -> DriverEvent:
        """The reason of a report."""
        return _KNOWN.get(reason, cls.OTHER)


_KNOWN = {event.value: event for event in DriverEvent}


class Durability(StrEnum):
    """Whether the partitions that the job's transactions write outlive one broker; a reason of TransactionsDurable."""

    NOT_OBSERVED = "NotObserved"
    """No driver has looked."""
    SETTINGS_UNKNOWN = "SettingsUnknown"
    """The driver's user may not read all of what decides."""
    REPLICATED = "Replicated"
    """Every partition has two copies at least, and accepts records with two copies in sync only."""
    ENDS_NOT_PROVEN = "EndsNotProven"
    """The driver's user may not ask leaders which transactions are open."""
    NOT_REPLICATED = "NotReplicated"
    """One copy can be the only copy."""

    @classmethod
    def of(cls, reason: str) -> Durability:
        """The reason of a report; NOT_OBSERVED for that of a driver of the next release."""
        return cls(reason) if reason in frozenset(cls) else cls.NOT_OBSERVED
