"""The committer's truth table, and what the evidence says of offsets."""

from __future__ import annotations

import pytest

from sparkapp.clients.transactions.states import TransactionDescription
from sparkapp.model.checkpoint.commit_outcome import (
    VERDICTS,
    CommitOutcome,
    EndTxnAnswer,
    GroupOffset,
    Mark,
    Verdict,
    ends_another,
    is_behind,
    mark_of,
    offset_mark,
    outcome_of,
)
from sparkapp.model.checkpoint.committable import MAX_PRODUCER_EPOCH, KafkaCommittable
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
RANGES = (KafkaPartitionSplit(A, 10, 20), KafkaPartitionSplit(B, 0, 5))
FIELDS = {
    "transactional_id": "p-0", "producer_id": 1, "producer_epoch": 0, "checkpoint_id": 1,
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
        ("INVALID_TXN_STATE", Verdict.ASK_EVIDENCE),
        ("PRODUCER_FENCED", Verdict.ASK_EVIDENCE),
        ("INVALID_PRODUCER_ID_MAPPING", Verdict.ASK_EVIDENCE),
        ("LATER_TRANSACTION", Verdict.ASK_EVIDENCE),
        ("OTHER_FATAL", Verdict.FAIL),
    ],
)
def test_the_table(answer, verdict):
    assert VERDICTS[EndTxnAnswer(answer)] is verdict


def at(offset, checkpoint=None, uid="uid", attempt=3):
    return GroupOffset(offset, "" if checkpoint is None else offset_mark(uid, attempt, checkpoint))


def described(state, start_time_ms=1000, producer_epoch=0, producer_id=1):
    return TransactionDescription(
        state=state, producer_id=producer_id, producer_epoch=producer_epoch, timeout_ms=1, start_time_ms=start_time_ms
    )


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        ({A: at(20, 7), B: at(5, 7)}, CommitOutcome.COMMITTED),
        ({A: at(21, 8), B: at(5, 7)}, CommitOutcome.COMMITTED),
        ({A: at(10, 6), B: at(0, 6)}, CommitOutcome.LOST),
        # The group was ahead of the job: only the mark shows it.
        ({A: at(500, 0), B: at(500, 6)}, CommitOutcome.LOST),
        ({A: at(10, 6), B: at(5, 7)}, CommitOutcome.UNCERTAIN),
        ({A: at(19, 7), B: at(5, 7)}, CommitOutcome.UNCERTAIN),
        # Nobody marked them, or somebody else did; or the group has expired.
        ({A: at(20), B: at(5)}, CommitOutcome.UNCERTAIN),
        ({A: at(20, 7, "other"), B: at(5, 7, "other")}, CommitOutcome.UNCERTAIN),
        ({A: at(10), B: at(0)}, CommitOutcome.UNCERTAIN),
        ({A: at(20, 7)}, CommitOutcome.UNCERTAIN),
        ({}, CommitOutcome.UNCERTAIN),
    ],
)
def test_the_marks_of_the_attempt_that_wrote_it(committed, expected):
    each = KafkaCommittable(**{**FIELDS, "checkpoint_id": 7}, attempt=3, ranges=RANGES)
    assert outcome_of(each, None, committed, job_uid="uid") is expected


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        # An earlier attempt's says nothing: the writer's own was there before the transaction, and was overwritten.
        ({A: at(10, 6, attempt=2), B: at(0, 6, attempt=2)}, CommitOutcome.UNCERTAIN),
        ({A: at(20, 7, attempt=2), B: at(5, 7, attempt=2)}, CommitOutcome.UNCERTAIN),
        ({A: at(10, 6, attempt=2), B: at(0, 6)}, CommitOutcome.UNCERTAIN),
        ({A: at(20, 7, attempt=2), B: at(5, 7)}, CommitOutcome.UNCERTAIN),
        # A later attempt has settled it; the document was put back.
        ({A: at(20, 7, attempt=4), B: at(5, 8, attempt=4)}, CommitOutcome.COMMITTED),
        ({A: at(20, 5, attempt=4), B: at(9, 5, attempt=4)}, CommitOutcome.COMMITTED),
        ({A: at(10, 7, attempt=4), B: at(0, 7, attempt=4)}, CommitOutcome.UNCERTAIN),
        ({A: at(20, 7), B: at(5, 8, attempt=4)}, CommitOutcome.COMMITTED),
    ],
)
def test_the_marks_of_other_attempts(committed, expected):
    each = KafkaCommittable(**{**FIELDS, "checkpoint_id": 7}, attempt=3, ranges=RANGES)
    assert outcome_of(each, None, committed, job_uid="uid") is expected


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        ({A: at(20, 7), B: at(5, 7)}, CommitOutcome.COMMITTED),
        ({A: at(10, 6), B: at(0, 6)}, CommitOutcome.UNCERTAIN),
        ({A: at(20, 6), B: at(5, 6)}, CommitOutcome.UNCERTAIN),
    ],
)
def test_where_the_attempt_is_not_known_an_earlier_mark_proves_no_loss(committed, expected):
    each = KafkaCommittable(**{**FIELDS, "checkpoint_id": 7}, ranges=RANGES)
    assert outcome_of(each, None, committed, job_uid="uid") is expected


@pytest.mark.parametrize(
    ("state", "committed", "expected"),
    [
        # A commit leaves what proves it; a loss is proven by what is missing.
        ("CompleteCommit", {A: at(10, 6), B: at(0, 6)}, CommitOutcome.COMMITTED),
        ("CompleteAbort", {A: at(20, 9, attempt=4), B: at(5, 9, attempt=4)}, CommitOutcome.COMMITTED),
        ("CompleteAbort", {A: at(10, 6), B: at(0, 6)}, CommitOutcome.LOST),
        ("CompleteAbort", {}, CommitOutcome.LOST),
        ("CompleteAbort", {A: at(10, 6, attempt=2), B: at(0, 6, attempt=2)}, CommitOutcome.LOST),
        ("Ongoing", {A: at(10, 6), B: at(0, 6)}, CommitOutcome.LOST),
        ("Ongoing", {A: at(20, 7), B: at(5, 7)}, CommitOutcome.COMMITTED),
        ("Ongoing", {}, CommitOutcome.PENDING),
    ],
)
def test_the_strongest_evidence_decides(state, committed, expected):
    each = KafkaCommittable(**{**FIELDS, "checkpoint_id": 7}, attempt=3, start_time_ms=1000, ranges=RANGES)
    assert outcome_of(each, described(state, producer_epoch=1), committed, job_uid="uid") is expected


def test_without_ranges_the_marks_say_nothing():
    committed = {A: at(20, 1), B: at(5, 1)}
    assert outcome_of(KafkaCommittable(**FIELDS), None, committed, job_uid="uid") is CommitOutcome.UNCERTAIN


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"state": "CompleteCommit"}, CommitOutcome.COMMITTED),
        ({"state": "PrepareCommit"}, CommitOutcome.COMMITTED),
        ({"state": "CompleteAbort"}, CommitOutcome.LOST),
        ({"state": "PrepareAbort"}, CommitOutcome.LOST),
        # The broker has moved the epoch on when it aborted: the start still names the transaction.
        ({"state": "CompleteAbort", "producer_epoch": 4}, CommitOutcome.LOST),
        ({"state": "Ongoing", "producer_epoch": 4}, CommitOutcome.PENDING),
        ({"state": "PrepareEpochFence", "producer_epoch": 4}, CommitOutcome.PENDING),
        # A later transaction of the same producer, which began it after its commit.
        ({"state": "Ongoing", "start_time_ms": 1001}, CommitOutcome.COMMITTED),
        ({"state": "CompleteAbort", "start_time_ms": 1001}, CommitOutcome.COMMITTED),
        # Another producer's: ours may have been committed before.
        ({"state": "CompleteAbort", "start_time_ms": 1001, "producer_epoch": 4}, CommitOutcome.UNCERTAIN),
        ({"state": "Empty", "start_time_ms": -1, "producer_epoch": 5}, CommitOutcome.UNCERTAIN),
        ({"state": "CompleteAbort", "producer_id": 2}, CommitOutcome.UNCERTAIN),
        ({"state": "CompleteCommit", "start_time_ms": 999}, CommitOutcome.UNCERTAIN),
    ],
    ids=str,
)
def test_what_a_coordinator_still_reports(found, expected):
    each = KafkaCommittable(**{**FIELDS, "producer_epoch": 3}, start_time_ms=1000)
    description = described(**{"producer_epoch": 3, **found})
    assert outcome_of(each, description, {}, job_uid="uid") is expected
    unnamed = KafkaCommittable(**{**FIELDS, "producer_epoch": 3})
    assert outcome_of(unnamed, description, {}, job_uid="uid") is CommitOutcome.UNCERTAIN, (
        "of a release that did not ask for the start"
    )


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
    each = KafkaCommittable(**{**FIELDS, "producer_epoch": 3}, start_time_ms=1000)
    description = described(**{"producer_epoch": 3, **found})
    assert ends_another(each, description) is expected
    assert not ends_another(KafkaCommittable(**{**FIELDS, "producer_epoch": 3}), description)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"state": "CompleteCommit", "start_time_ms": 999}, True),
        ({"state": "Empty", "start_time_ms": -1}, True),
        ({"state": "CompleteCommit", "producer_epoch": 2}, True),
        ({"state": "Ongoing", "start_time_ms": 2000, "producer_epoch": 2}, True),
        ({"state": "Ongoing"}, False),
        ({"state": "CompleteCommit", "start_time_ms": 1001}, False),
        ({"state": "CompleteAbort", "start_time_ms": 999, "producer_epoch": 4}, False),
        ({"state": "Empty", "start_time_ms": -1, "producer_epoch": 4}, False),
        ({"state": "CompleteCommit", "start_time_ms": 999, "producer_id": 2}, False),
    ],
    ids=str,
)
def test_a_description_by_a_broker_that_has_not_heard_of_the_transaction(found, expected):
    each = KafkaCommittable(**{**FIELDS, "producer_epoch": 3}, start_time_ms=1000)
    description = described(**{"producer_epoch": 3, **found})
    assert is_behind(each, description) is expected
    unnamed = KafkaCommittable(**{**FIELDS, "producer_epoch": 3})
    assert is_behind(unnamed, description) is (description.producer_epoch < 3)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (offset_mark("uid", 2, 41), Mark(2, 41)), ("uid/2/0", Mark(2, 0)), ("uid/x/1", None), ("uid//1", None),
        ("", None), ("uid", None), ("uid/2", None), ("uid/2/", None),
        ("uid/2/x", None), ("uid/2/-1", None), ("uid/2/4/1", None), ("other/2/41", None), ("uid/2/٣", None),
        (f"uid/2/{10**18 - 1}", Mark(2, 10**18 - 1)), (f"uid/2/{10**18}", None), (f"uid/2/{'9' * 5000}", None),
    ],
)  # fmt: skip
def test_a_mark_names_its_attempt_and_checkpoint(text, mark):
    assert mark_of(text, "uid") == mark


@pytest.mark.parametrize(
    "wrong",
    [
        {"transactional_id": ""}, {"producer_id": -1}, {"producer_epoch": -1},
        {"producer_epoch": MAX_PRODUCER_EPOCH + 1},
        {"checkpoint_id": -1}, {"subtask": -1}, {"records": -1},
        {"start_time_ms": -1}, {"attempt": -1},
    ],
    ids=str,
)  # fmt: skip
def test_not_a_committable(wrong):
    with pytest.raises(InvalidArgument):
        KafkaCommittable(**{**FIELDS, **wrong})


def test_the_last_epoch_is_one():
    assert KafkaCommittable(**{**FIELDS, "producer_epoch": MAX_PRODUCER_EPOCH}).producer_epoch == 32767
