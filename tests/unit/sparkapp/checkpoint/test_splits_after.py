"""Where a restart continues after lost transactions, where ranges are not those that the tasks were given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.checkpoint.recovery.recovery import splits_after
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, EndTxnAnswer, GroupOffset, offset_mark, outcome_of
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, cut_at
from sparkapp.model.errors import StateUncertain
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import Settled

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
READ = (KafkaPartitionSplit(A0, 100, 200), KafkaPartitionSplit(A1, 0, 50))


def committable(subtask: int, *ranges: KafkaPartitionSplit) -> KafkaCommittable:
    return KafkaCommittable(
        transactional_id=f"p-{subtask}", producer_id=1, producer_epoch=0, checkpoint_id=7,
        subtask=subtask, records=9, ranges=ranges,
    )  # fmt: skip


def document(*committables: KafkaCommittable, **changes: object) -> CheckpointDocument:
    base = CheckpointDocument(
        job_uid="uid", attempt=1, checkpoint_id=7, created_at="", parallelism=2, prefix="p", splits=READ,
        committables=committables,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def settled(
    each: KafkaCommittable, outcome: CommitOutcome, answer: EndTxnAnswer = EndTxnAnswer.INVALID_TXN_STATE
) -> Settled:
    return Settled(committable=each, outcome=outcome, answer=answer)


def test_a_cut_partition_goes_back_whole_or_not_at_all() -> None:
    first, second = committable(0), committable(1)
    cut = decode(encode(document(first, second, aligned=False)), job_uid="uid")
    assert cut.committables == (first, second), "no ranges are made up for pieces"
    splits, lost = splits_after(cut, [settled(first, CommitOutcome.LOST), settled(second, CommitOutcome.LOST)])
    assert [(each.start, each.stop) for each in splits] == [(100, 100), (0, 0)]
    assert lost == READ
    with pytest.raises(StateUncertain, match="checkpoint 7 is part committed; lost: p-1 ") as caught:
        splits_after(cut, [settled(first, CommitOutcome.COMMITTED), settled(second, CommitOutcome.LOST)])
    assert "compare the sink topic with its source" in caught.value.remedy


@pytest.mark.parametrize(
    "answer",
    [EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING, EndTxnAnswer.PRODUCER_FENCED, EndTxnAnswer.INVALID_TXN_STATE],
)
@pytest.mark.parametrize("neighbour", CommitOutcome)
@pytest.mark.parametrize("aligned", [True, False])
def test_C07_what_is_not_proven_lost_is_never_written_again(
    answer: EndTxnAnswer, neighbour: CommitOutcome, aligned: bool
) -> None:
    """The id may have expired long after the commit: to read its checkpoint again would write every record twice."""
    first, second = committable(0), committable(1)
    with pytest.raises(
        StateUncertain, match=rf"neither committed nor lost could be proven for .*p-0 \({answer.name}\)"
    ) as caught:
        splits_after(
            document(first, second, aligned=aligned),
            [settled(first, CommitOutcome.UNCERTAIN, answer), settled(second, neighbour)],
        )
    assert caught.value.fatal
    assert "compare the sink topic with its source" in caught.value.remedy


def test_an_ended_partition_with_a_lost_transaction_goes_back_and_keeps_its_end() -> None:
    stops = {A0: 151, A1: 10}
    written = document(
        *(committable(split.owner(2), split) for split in READ), splits=cut_at(READ, stops), stops=stops, stopping="p"
    )
    restored = decode(encode(written), job_uid="uid")
    gone = next(each for each in restored.committables if each.ranges[0].partition == A0)
    kept = next(each for each in restored.committables if each.ranges[0].partition == A1)
    assert gone.ranges == (KafkaPartitionSplit(A0, 100, 151),)
    splits, lost = splits_after(restored, [settled(gone, CommitOutcome.LOST), settled(kept, CommitOutcome.COMMITTED)])
    assert [(each.start, each.stop) for each in splits] == [(100, 100), (0, 10)]
    assert lost == gone.ranges
    assert restored.stops == stops


def test_a_group_offset_behind_the_end_still_proves_the_commit() -> None:
    """The transaction moved the group to where its task had read, beyond the range that the document names."""
    restored = replace(committable(0, *cut_at(READ[:1], {A0: 151})), attempt=1)
    mark, previous = offset_mark("uid", 1, 7), offset_mark("uid", 1, 6)
    assert outcome_of(restored, None, {A0: GroupOffset(200, mark)}, job_uid="uid") is CommitOutcome.COMMITTED
    assert outcome_of(restored, None, {A0: GroupOffset(151, mark)}, job_uid="uid") is CommitOutcome.COMMITTED
    assert outcome_of(restored, None, {A0: GroupOffset(100, previous)}, job_uid="uid") is CommitOutcome.LOST
