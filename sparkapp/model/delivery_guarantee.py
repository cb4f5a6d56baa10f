"""Delivery guarantees and offset commit modes, with Flink's decision tables."""

from __future__ import annotations

from enum import StrEnum


class DeliveryGuarantee(StrEnum):
    """What the sink promises; Flink's ``DeliveryGuarantee``.

    None: nothing is awaited but at an orderly end. AtLeastOnce: every record is acknowledged before the checkpoint is
    written.
    ExactlyOnce: records of a checkpoint become visible together, once, when it is complete.
    """

    NONE = "None"
    AT_LEAST_ONCE = "AtLeastOnce"
    EXACTLY_ONCE = "ExactlyOnce"

    @property
    def transactional(self) -> bool:
        """Whether records are written in transactions."""
        return self is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def acknowledged(self) -> bool:
        """Whether a checkpoint waits until brokers have its records. Without it an orderly end waits for all."""
        return self is not DeliveryGuarantee.NONE


class OffsetCommit(StrEnum):
    """The user's choice in ``source.offsetCommit``."""

    IN_TRANSACTION = "InTransaction"
    ON_CHECKPOINT = "OnCheckpoint"
    DISABLED = "Disabled"


class OffsetCommitMode(StrEnum):
    """Where committed group offsets come from: Flink's three ``OffsetCommitMode`` values and the transaction itself."""

    DISABLED = "DISABLED"
    ON_CHECKPOINTS = "ON_CHECKPOINTS"
    KAFKA_PERIODIC = "KAFKA_PERIODIC"
    IN_TRANSACTION = "IN_TRANSACTION"


def offset_commit_mode(
    *, enable_auto_commit: bool, enable_commit_on_checkpoint: bool, enable_checkpointing: bool
) -> OffsetCommitMode:
    """Flink's ``OffsetCommitModes.fromConfiguration``: with checkpoints, only the checkpoint flag decides."""
    if enable_checkpointing:
        return OffsetCommitMode.ON_CHECKPOINTS if enable_commit_on_checkpoint else OffsetCommitMode.DISABLED
    return OffsetCommitMode.KAFKA_PERIODIC if enable_auto_commit else OffsetCommitMode.DISABLED


def effective_offset_commit_mode(choice: OffsetCommit, delivery_guarantee: DeliveryGuarantee) -> OffsetCommitMode:
    """The mode of a job, which always takes checkpoints: KAFKA_PERIODIC is therefore never chosen here."""
    if choice is OffsetCommit.IN_TRANSACTION and delivery_guarantee.transactional:
        return OffsetCommitMode.IN_TRANSACTION
    return offset_commit_mode(
        enable_auto_commit=False,
        enable_commit_on_checkpoint=choice is not OffsetCommit.DISABLED,
        enable_checkpointing=True,
    )
