"""Retained checkpoints: a round trip, and every way in which one can be wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparkapp.model.checkpoint.document import CheckpointDocument, Counters
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, checkpoint_of_key, retained, retained_key
from sparkapp.model.checkpoint.retained_codec import MAX_RETAINED_BYTES, decode_retained, encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointTooLarge, CheckpointUnusable
from sparkapp.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
ONE = RetainedCheckpoint(
    job_uid="uid", attempt=4, checkpoint_id=17, created_at="2026-11-21T08:00:00Z", orderly=True,
    offsets={ORDERS: 20, TopicPartition("täglich", 7): 0}, stops={ORDERS: 30}, stopping="Latest", records_in=9,
    records_out=8,
)  # fmt: skip
KEY = "checkpoint-17.json"


def body(**changes):
    return {**json.loads(encode_retained(ONE)), **changes}


def test_round_trip():
    assert decode_retained(encode_retained(ONE), key=KEY, job_uid="uid") == ONE


def test_what_is_kept_of_a_document():
    document = CheckpointDocument(
        job_uid="uid", attempt=4, checkpoint_id=17, created_at="2026-11-21T08:00:00Z", parallelism=2, prefix="p",
        splits=(KafkaPartitionSplit(ORDERS, 10, 20),), engine="x" * 1000,
        counters=Counters(records_in=9, records_out=8),
    )  # fmt: skip
    each = retained(document)
    assert each == replace(ONE, orderly=False, offsets={ORDERS: 20}, stops={}, stopping="")
    assert len(encode_retained(each)) < 220, "neither transactions nor the engine's text"
    assert retained(replace(document, drained=True)).orderly


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"formatVersion": 2}, "format version 2"),
        ({"jobUid": "other"}, "belongs to the job with UID 'other'"),
        ({"attempt": 0}, "attempt"),
        ({"checkpointId": 18}, "it is checkpoint 18"),
        ({"checkpointId": 0}, "checkpointId"),
        ({"checkpointId": True}, "checkpointId"),
        ({"createdAt": "yesterday"}, "createdAt"),
        ({"createdAt": "2026-11-21T08:00:00"}, "createdAt"),
        ({"orderly": 1}, "orderly"),
        ({"offsets": {"orders": {"0": -1}}}, "orders-0"),
        ({"offsets": {"orders": {"00": 1}}}, "by number"),
        ({"offsets": {"orders": {"9" * 5000: 1}}}, "by number"),
        ({"offsets": {"orders": [1]}}, "must be an object"),
        ({"offsets": []}, "offsets must be an object"),
        ({"recordsIn": 1 << 63}, "recordsIn"),
        ({"extra": 1}, "unknown fields: extra"),
        ({"bounded": {"stopping": "Latest", "stops": {}, "x": 1}}, "bounded has unknown fields"),
        ({"bounded": {"stopping": "", "stops": {"orders": {"0": 9}}}}, "stopping"),
        ({"clusterId": "\ud800"}, "surrogates"),
        ({"offsets": {"\ud800": {"0": 1}}}, "surrogates"),
    ],
)
def test_refusals_name_the_checkpoint(changes, match):
    with pytest.raises(CheckpointUnusable, match=match) as caught:
        decode_retained(json.dumps(body(**changes)), key=KEY, job_uid="uid")
    assert KEY in caught.value.message
    assert caught.value.reason == "CheckpointUnusable"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":1,"a":2}', "NaN", "[" * 100_000, "x" * (MAX_RETAINED_BYTES + 1)])
def test_what_is_no_object_of_ours(text):
    with pytest.raises(CheckpointUnusable, match=KEY):
        decode_retained(text, key=KEY, job_uid="uid")


@pytest.mark.parametrize("name", [name for name in body() if name != "bounded"])
def test_every_field_is_needed(name):
    with pytest.raises(CheckpointUnusable, match=f"{name} is missing"):
        decode_retained(
            json.dumps({key: value for key, value in body().items() if key != name}), key=KEY, job_uid="uid"
        )


def test_one_that_is_too_large_is_not_written():
    many = {TopicPartition("t" * 200, number): 1 << 62 for number in range(40_000)}
    with pytest.raises(CheckpointTooLarge, match="checkpoint 17 needs"):
        encode_retained(replace(ONE, offsets=many))


def test_keys_are_read_back():
    assert checkpoint_of_key(retained_key(17)) == 17
    for name in ("checkpoint-0.json", "checkpoint-017.json", "checkpoint-1.json\n", "checkpoint-.json", "x"):
        assert checkpoint_of_key(name) is None
