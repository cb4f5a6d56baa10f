"""Reasons that a driver reports: of events, and of a condition. A report is untrusted, so each is one of these."""

from __future__ import annotations

from enum import StrEnum


class DriverEvent(StrEnum):
    """The reason of an event, as ``kubectl get events`` shows it."""

    RUNNING = "Running"
    DRAINED = "Drained"
    FINISHED = "Finished"
    CREDENTIALS_CHANGED = "CredentialsChanged"
    CREDENTIALS_REFUSED = "CredentialsRefused"
    CHECKPOINT_NOT_KEPT = "CheckpointNotKept"
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    OFFSET_OUT_OF_RANGE = "OffsetOutOfRange"
    OFFSETS_SKIPPED = "OffsetsSkipped"
    PARTITION_ADDED = "PartitionAdded"
    PARTITION_BEYOND_END = "PartitionBeyondEnd"
    PARTITION_IGNORED = "PartitionIgnored"
    PARTITION_REMOVED = "PartitionRemoved"
    PARTITIONS_ASSIGNED = "PartitionsAssigned"
    PARTITIONS_LOST = "PartitionsLost"
    PARTITIONS_REVOKED = "PartitionsRevoked"
    RECORDS_DEAD_LETTERED = "RecordsDeadLettered"
    RECORDS_SKIPPED = "RecordsSkipped"
    RESTORE_IGNORED = "RestoreIgnored"
    RESTORED_FROM_CHECKPOINT = "RestoredFromCheckpoint"
    SPECIFIC_OFFSETS_UNUSED = "SpecificOffsetsUnused"
    STATE_EDITED = "StateEdited"
    SUBTASK_SILENT = "SubtaskSilent"
    SUBTASKS_WAIT = "SubtasksWait"
    TOPIC_RECREATED = "TopicRecreated"
    TRANSACTION_TIME_RUNS_OUT = "TransactionTimeRunsOut"
    TRANSACTIONS_ABORTED = "TransactionsAborted"
    TRANSACTIONS_LOST = "TransactionsLost"
    TRANSACTIONS_NOT_DURABLE = "TransactionsNotDurable"
    OTHER = "DriverEvent"
    """Any other reason: of a driver of the next release, or forged."""

    @classmethod
    def of(cls, reason: str) -> DriverEvent:
        """The reason of a report."""
        return cls(reason) if reason in _KNOWN else cls.OTHER


_KNOWN = frozenset(DriverEvent)


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
