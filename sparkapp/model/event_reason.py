"""Reasons of the events that a driver reports. A report is untrusted, so its reasons are one of these."""

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
    OTHER = "DriverEvent"
    """Any other reason: of a driver of the next release, or forged."""

    @classmethod
    def of(cls, reason: str) -> DriverEvent:
        """The reason of a report."""
        return cls(reason) if reason in _KNOWN else cls.OTHER


_KNOWN = frozenset(DriverEvent)
