"""Where the group's offsets come from: the seed's decision table and the job's own choice (case S37)."""

from __future__ import annotations

import pytest

from sparkapp.model.delivery_guarantee import (
    DeliveryGuarantee,
    OffsetCommit,
    OffsetCommitMode,
    effective_offset_commit_mode,
    offset_commit_mode,
)

DISABLED, ON_CHECKPOINTS = OffsetCommitMode.DISABLED, OffsetCommitMode.ON_CHECKPOINTS
KAFKA_PERIODIC, IN_TRANSACTION = OffsetCommitMode.KAFKA_PERIODIC, OffsetCommitMode.IN_TRANSACTION


@pytest.mark.parametrize(
    ("checkpointing", "on_checkpoint", "auto", "mode"),
    [
        (True, True, True, ON_CHECKPOINTS),
        (True, True, False, ON_CHECKPOINTS),
        (True, False, True, DISABLED),
        (True, False, False, DISABLED),
        (False, True, True, KAFKA_PERIODIC),
        (False, False, True, KAFKA_PERIODIC),
        (False, True, False, DISABLED),
        (False, False, False, DISABLED),
    ],
)
def test_S37_the_decision_table_of_seed_000(
    checkpointing: bool, on_checkpoint: bool, auto: bool, mode: OffsetCommitMode
) -> None:
    found = offset_commit_mode(
        enable_auto_commit=auto, enable_commit_on_checkpoint=on_checkpoint, enable_checkpointing=checkpointing
    )
    assert found is mode


@pytest.mark.parametrize(
    ("choice", "delivery_guarantee", "mode"),
    [
        (OffsetCommit.IN_TRANSACTION, DeliveryGuarantee.EXACTLY_ONCE, IN_TRANSACTION),
        (OffsetCommit.IN_TRANSACTION, DeliveryGuarantee.AT_LEAST_ONCE, ON_CHECKPOINTS),
        (OffsetCommit.IN_TRANSACTION, DeliveryGuarantee.NONE, ON_CHECKPOINTS),
        (OffsetCommit.ON_CHECKPOINT, DeliveryGuarantee.EXACTLY_ONCE, ON_CHECKPOINTS),
        (OffsetCommit.ON_CHECKPOINT, DeliveryGuarantee.AT_LEAST_ONCE, ON_CHECKPOINTS),
        (OffsetCommit.DISABLED, DeliveryGuarantee.EXACTLY_ONCE, DISABLED),
        (OffsetCommit.DISABLED, DeliveryGuarantee.AT_LEAST_ONCE, DISABLED),
        (OffsetCommit.DISABLED, DeliveryGuarantee.NONE, DISABLED),
    ],
)
def test_S37_a_jobs_mode_follows_its_choice_and_its_semantic(
    choice: OffsetCommit, delivery_guarantee: DeliveryGuarantee, mode: OffsetCommitMode
) -> None:
    assert effective_offset_commit_mode(choice, delivery_guarantee) is mode
