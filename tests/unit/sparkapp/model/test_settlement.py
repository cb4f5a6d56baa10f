"""The committer's truth table, and what the witness says of offsets."""

from __future__ import annotations

import pytest

from sparkapp.model.committable import MAX_PRODUCER_EPOCH, KafkaCommittable
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition
from sparkapp.model.settlement import (
    VERDICTS,
    EndTxnAnswer,
    GroupOffset,
    Verdict,
    Witnessed,
    marked_checkpoint,
    offset_mark,
    traced,
    witness,
    would_end_another,
)
from sparkapp.model.split import KafkaPartitionSplit

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
RANGES = (KafkaPartitionSplit(A, 10, 20), KafkaPartitionSplit(B, 0, 5))
FIELDS = {
    "transactional_id": "p-0", "producer_id": 1, "producer_epoch": 0, "transaction_version": 1, "checkpoint_id": 1,
    "subtask": 0, "records": 1,
}  # fmt: skip


def test_every_answer_has_a_verdict():
    assert set(VERDICTS) == set(EndTxnAnswer)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("NONE", Verdict.COMMITTED),
        ("CONCURRENT_TRANSACTIONS", Verdict.RETRY),
        ("OTHER_RETRIABLE", Verdict.RETRY),
        ("INVALID_TXN_STATE", Verdict.ASK_WITNESS),
        ("PRODUCER_FENCED", Verdict.ASK_WITNESS),
        ("INVALID_PRODUCER_ID_MAPPING", Verdict.ASK_WITNESS),
        ("LATER_TRANSACTION", Verdict.ASK_WITNESS),
        ("OTHER_FATAL", Verdict.FAIL),
    ],
)
def test_the_table(answer, verdict):
    assert VERDICTS[EndTxnAnswer(answer)] is verdict


def at(offset, checkpoint=None, uid="uid"):
    return GroupOffset(offset, "" if checkpoint is None else offset_mark(uid, 3, checkpoint))


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        ({A: at(20, 7), B: at(5, 7)}, Witnessed.COMMITTED),
        ({A: at(21, 8), B: at(5, 7)}, Witnessed.COMMITTED),
        ({A: at(10, 6), B: at(0, 6)}, Witnessed.LOST),
        # The group was ahead of the job: only the mark tells.
        ({A: at(500, 0), B: at(500, 6)}, Witnessed.LOST),
        ({A: at(10, 6), B: at(5, 7)}, Witnessed.UNKNOWN),
        ({A: at(19, 7), B: at(5, 7)}, Witnessed.UNKNOWN),
        # Nobody marked them, or somebody else did; or the group has expired.
        ({A: at(20), B: at(5)}, Witnessed.UNKNOWN),
        ({A: at(20, 7, "other"), B: at(5, 7, "other")}, Witnessed.UNKNOWN),
        ({A: at(10), B: at(0)}, Witnessed.UNKNOWN),
        ({A: at(20, 7)}, Witnessed.UNKNOWN),
        ({}, Witnessed.UNKNOWN),
    ],
)
def test_the_witness(committed, expected):
    one = KafkaCommittable(**{**FIELDS, "checkpoint_id": 7}, ranges=RANGES)
    assert witness(one, committed, job_uid="uid") is expected


def test_without_ranges_the_witness_knows_nothing():
    committed = {A: at(20, 1), B: at(5, 1)}
    assert witness(KafkaCommittable(**FIELDS), committed, job_uid="uid") is Witnessed.UNKNOWN


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"state": "CompleteCommit"}, Witnessed.COMMITTED),
        ({"state": "PrepareCommit"}, Witnessed.COMMITTED),
        ({"state": "CompleteAbort"}, Witnessed.LOST),
        ({"state": "PrepareAbort"}, Witnessed.LOST),
        # The broker has moved the epoch on when it aborted: the start still names the transaction.
        ({"state": "CompleteAbort", "producer_epoch": 4}, Witnessed.LOST),
        ({"state": "Ongoing", "producer_epoch": 4}, Witnessed.PENDING),
        ({"state": "PrepareEpochFence", "producer_epoch": 4}, Witnessed.PENDING),
        # A later transaction of the same producer, which began it after its commit.
        ({"state": "Ongoing", "start_time_ms": 1001}, Witnessed.COMMITTED),
        ({"state": "CompleteAbort", "start_time_ms": 1001}, Witnessed.COMMITTED),
        # Another producer's: ours may have been committed before.
        ({"state": "CompleteAbort", "start_time_ms": 1001, "producer_epoch": 4}, Witnessed.UNKNOWN),
        ({"state": "Empty", "start_time_ms": -1, "producer_epoch": 5}, Witnessed.UNKNOWN),
        ({"state": "CompleteAbort", "producer_id": 2}, Witnessed.UNKNOWN),
        ({"state": "CompleteCommit", "start_time_ms": 999}, Witnessed.UNKNOWN),
    ],
    ids=str,
)
def test_what_a_coordinator_still_tells(found, expected):
    one = KafkaCommittable(**{**FIELDS, "producer_epoch": 3}, start_time_ms=1000)
    described = {"producer_id": 1, "producer_epoch": 3, "start_time_ms": 1000, **found}
    assert traced(one, **described) is expected
    former = KafkaCommittable(**{**FIELDS, "producer_epoch": 3})
    assert traced(former, **described) is Witnessed.UNKNOWN, "written by a release that did not ask for the start"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"state": "Ongoing", "start_time_ms": 1001}, True),
        ({"state": "Ongoing", "start_time_ms": 999}, True),
        ({"state": "Ongoing"}, False),
        # EndTxn by itself answers these as it should.
        ({"state": "CompleteCommit", "start_time_ms": 1001}, False),
        ({"state": "Ongoing", "start_time_ms": 1001, "producer_epoch": 4}, False),
        ({"state": "Ongoing", "start_time_ms": 1001, "producer_id": 2}, False),
        ({"state": "Empty", "start_time_ms": -1}, False),
    ],
    ids=str,
)
def test_a_triple_that_would_end_another_transaction(found, expected):
    one = KafkaCommittable(**{**FIELDS, "producer_epoch": 3}, start_time_ms=1000)
    described = {"producer_id": 1, "producer_epoch": 3, "start_time_ms": 1000, **found}
    assert would_end_another(one, **described) is expected
    assert not would_end_another(KafkaCommittable(**{**FIELDS, "producer_epoch": 3}), **described)


@pytest.mark.parametrize(
    ("text", "checkpoint"),
    [
        (offset_mark("uid", 2, 41), 41), ("uid/2/0", 0), ("", None), ("uid", None), ("uid/2", None), ("uid/2/", None),
        ("uid/2/x", None), ("uid/2/-1", None), ("uid/2/4/1", None), ("other/2/41", None), ("uid/2/٣", None),
    ],
)  # fmt: skip
def test_a_mark_names_its_checkpoint(text, checkpoint):
    assert marked_checkpoint(text, "uid") == checkpoint


@pytest.mark.parametrize(
    "wrong",
    [
        {"transactional_id": ""}, {"producer_id": -1}, {"producer_epoch": -1},
        {"producer_epoch": MAX_PRODUCER_EPOCH + 1},
        {"transaction_version": -1}, {"checkpoint_id": -1}, {"subtask": -1}, {"records": -1},
        {"start_time_ms": -1},
    ],
    ids=str,
)  # fmt: skip
def test_not_a_committable(wrong):
    with pytest.raises(InvalidArgument):
        KafkaCommittable(**{**FIELDS, **wrong})


def test_the_last_epoch_is_one():
    assert KafkaCommittable(**{**FIELDS, "producer_epoch": MAX_PRODUCER_EPOCH}).producer_epoch == 32767
