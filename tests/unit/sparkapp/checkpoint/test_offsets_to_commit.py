"""What a completed checkpoint commits to the group outside its transactions (case S37)."""

from __future__ import annotations

import pytest

from sparkapp.checkpoint.pre_committed import PreCommitted, offsets_to_commit
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.partition import TopicPartition

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
READ, ALSO_READ, UNREAD = (
    KafkaPartitionSplit(A0, 3, 10),
    KafkaPartitionSplit(A1, 0, 5),
    KafkaPartitionSplit(A2, 4, 4),
)


def checkpoint(*, inside: tuple[KafkaPartitionSplit, ...] = (), aligned: bool = True) -> PreCommitted:
    committable = KafkaCommittable(
        transactional_id="p-0", producer_id=1, producer_epoch=0, checkpoint_id=1, subtask=0,
        records=7, ranges=inside,
    )  # fmt: skip
    return PreCommitted(
        checkpoint_id=1, splits=(READ, ALSO_READ, UNREAD), aligned=aligned, committables=(committable,), records_out=7
    )


@pytest.mark.parametrize("aligned", [True, False])
def test_S37_on_checkpoints_commits_the_next_offset_of_what_was_read(aligned: bool) -> None:
    found = offsets_to_commit(checkpoint(aligned=aligned), OffsetCommitMode.ON_CHECKPOINTS)
    assert found == {A0: 10, A1: 5}, "the next offset, and nothing for a partition of which nothing was read"


def test_S37_in_transaction_leaves_over_what_no_transaction_carried() -> None:
    assert offsets_to_commit(checkpoint(inside=(READ,)), OffsetCommitMode.IN_TRANSACTION) == {A1: 5}
    assert offsets_to_commit(checkpoint(inside=(READ, ALSO_READ)), OffsetCommitMode.IN_TRANSACTION) == {}


def test_an_offset_behind_the_end_of_its_partition_is_put_right() -> None:
    """The transaction carries what its task read to; the checkpoint says where the partition ends."""
    ahead = KafkaPartitionSplit(A0, 3, 40)
    assert offsets_to_commit(checkpoint(inside=(ahead, ALSO_READ)), OffsetCommitMode.IN_TRANSACTION) == {A0: 10}


def test_S37_a_pipeline_that_shuffles_commits_after_the_checkpoint() -> None:
    assert offsets_to_commit(checkpoint(aligned=False), OffsetCommitMode.IN_TRANSACTION) == {A0: 10, A1: 5}


@pytest.mark.parametrize("aligned", [True, False])
def test_S37_disabled_commits_nothing(aligned: bool) -> None:
    assert offsets_to_commit(checkpoint(aligned=aligned), OffsetCommitMode.DISABLED) == {}
