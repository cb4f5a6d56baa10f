"""The committer's truth table, and what the witness says of offsets."""

from __future__ import annotations

import pytest

from sparkapp.model.committable import MAX_PRODUCER_EPOCH, KafkaCommittable
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition
from sparkapp.model.settlement import VERDICTS, EndTxnAnswer, Verdict, Witnessed, witness
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
        ("OTHER_FATAL", Verdict.FAIL),
    ],
)
def test_the_table(answer, verdict):
    assert VERDICTS[EndTxnAnswer(answer)] is verdict


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        ({A: 20, B: 5}, Witnessed.COMMITTED),
        ({A: 21, B: 50}, Witnessed.COMMITTED),
        ({}, Witnessed.LOST),
        ({A: 10}, Witnessed.LOST),
        ({A: 10, B: 0}, Witnessed.LOST),
        ({A: 3, B: 0}, Witnessed.LOST),
        ({A: 20}, Witnessed.UNKNOWN),
        ({A: 20, B: 4}, Witnessed.UNKNOWN),
        ({A: 15, B: 0}, Witnessed.UNKNOWN),
        ({A: 19, B: 4}, Witnessed.UNKNOWN),
    ],
)
def test_the_witness(committed, expected):
    assert witness(KafkaCommittable(**FIELDS, ranges=RANGES), committed) is expected


def test_without_ranges_the_witness_knows_nothing():
    assert witness(KafkaCommittable(**FIELDS), {A: 20, B: 5}) is Witnessed.UNKNOWN


@pytest.mark.parametrize(
    "wrong",
    [
        {"transactional_id": ""}, {"producer_id": -1}, {"producer_epoch": -1},
        {"producer_epoch": MAX_PRODUCER_EPOCH + 1},
        {"transaction_version": -1}, {"checkpoint_id": -1}, {"subtask": -1}, {"records": -1},
    ],
    ids=str,
)  # fmt: skip
def test_not_a_committable(wrong):
    with pytest.raises(InvalidArgument):
        KafkaCommittable(**{**FIELDS, **wrong})


def test_the_last_epoch_is_one():
    assert KafkaCommittable(**{**FIELDS, "producer_epoch": MAX_PRODUCER_EPOCH}).producer_epoch == 32767
