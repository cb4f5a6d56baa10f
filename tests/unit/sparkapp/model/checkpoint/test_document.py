"""The checkpoint document: a round trip, and every way in which it can be wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparkapp.model.checkpoint.codec import LOCAL_FORMAT_VERSION, MAX_DOCUMENT_BYTES, MAX_ENGINE_BYTES, decode, encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters, LocalPart
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign, CheckpointTooLarge
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.model.transactional_id import TransactionalIdHint

UID = "4f9a1c7e-uid"
SPLITS = tuple(
    sorted(
        KafkaPartitionSplit(TopicPartition(topic, partition), 10 * partition, 10 * partition + size)
        for topic, size in (("orders", 7), ("idle", 0), ("täglich.über-alles_1", 3))
        for partition in range(4)
    )
)


def document(**changes):
    owned = splits_by_subtask(SPLITS, 3)
    base = CheckpointDocument(
        job_uid=UID,
        attempt=4,
        checkpoint_id=17,
        created_at="2026-11-21T08:00:00Z",
        parallelism=3,
        prefix="shop.orders",
        previous_prefixes=("shop.old",),
        hint=TransactionalIdHint(3, 30),
        splits=SPLITS,
        committables=tuple(
            KafkaCommittable(
                transactional_id=f"shop.orders-{30 + subtask * 5}",
                producer_id=1000 + subtask,
                producer_epoch=subtask,
                checkpoint_id=17,
                subtask=subtask,
                records=subtask * 11,
                ranges=ranges,
            )
            for subtask, ranges in owned.items()
        ),
        evidence_group="shop.orders",
        engine='{"batch":"\\u0000 \\"quoted\\" ü"}',
        counters=Counters(records_in=5, records_out=4, transactions_committed=3, transactions_aborted=2),
    )
    return replace(base, **changes)


def body(**changes):
    return {**json.loads(encode(document())), **changes}


def refused(value, match=None):
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(CheckpointCorrupt, match=match):
        decode(text, job_uid=UID)


def test_round_trip():
    assert decode(encode(document()), job_uid=UID) == document()


def test_topics_of_unproven_transactions_are_optional_and_kept():
    """An orderly stop leaves them out, so that releases before the field can follow."""
    assert "sinkTopics" not in body()
    kept = document(sink_topics=frozenset(["out", "letters"]))
    assert json.loads(encode(kept))["sinkTopics"] == ["letters", "out"]
    assert decode(encode(kept), job_uid=UID) == kept


@pytest.mark.parametrize("wrong", [None, {}, "out", [1], [""], ["a" * 250], [None], ["a", "a"], [["a"]]])
def test_topics_that_no_transaction_can_have_written_to(wrong):
    refused(body(sinkTopics=wrong))


def test_a_transactions_start_is_optional_and_written_where_it_is_known():
    """Documents of previous releases do not have it, and are read."""
    (previous, *_) = body()["committables"]
    assert "startTimeMs" not in previous
    known = document(committables=tuple(replace(each, start_time_ms=1795349724320) for each in document().committables))
    text = encode(known)
    assert {each["startTimeMs"] for each in json.loads(text)["committables"]} == {1795349724320}
    assert decode(text, job_uid=UID) == known


def test_the_attempt_that_wrote_a_transaction_is_optional_and_outlives_a_claim():
    (unknown, *_) = body()["committables"]
    assert "attempt" not in unknown
    written = tuple(replace(each, attempt=document().attempt) for each in document().committables)
    claimed = document(attempt=document().attempt + 1, committables=written)
    assert decode(encode(claimed), job_uid=UID) == claimed
    later = tuple(replace(each, attempt=document().attempt + 1) for each in written)
    with pytest.raises(CheckpointCorrupt, match="after attempt"):
        decode(encode(document(committables=later)), job_uid=UID)


def test_round_trip_of_a_claim():
    claim = CheckpointDocument(
        job_uid=UID, attempt=1, checkpoint_id=0, created_at="", parallelism=1, prefix="shop.orders"
    )
    assert decode(encode(claim), job_uid=UID) == claim


def test_ranges_of_committables_come_back_from_the_owner_formula():
    for each in decode(encode(document()), job_uid=UID).committables:
        assert each.ranges
        for split in each.ranges:
            assert split_owner(split.partition.topic, split.partition.partition, 3) == each.subtask


def test_a_shuffled_checkpoint_has_committables_without_ranges():
    shuffled = decode(encode(document(aligned=False)), job_uid=UID)
    assert [each.ranges for each in shuffled.committables] == [()] * len(document().committables)


def test_a_previous_prefix_names_committables_too():
    renamed = document(prefix="shop.new", previous_prefixes=("shop.orders",))
    assert decode(encode(renamed), job_uid=UID) == renamed


@pytest.mark.parametrize("foreign", [
    "other.job-3", "shop.orders-x", "shop.orders", "shop.orders-1-3", "shop.orders-1.2.3", "shop.orders.1-3",
    "shop.orders-offsets",
    f"shop.orders-{'9' * 5000}",
])  # fmt: skip
def test_committables_of_another_job_are_refused(foreign):
    changed = body()
    changed["committables"][0]["transactionalId"] = foreign
    refused(changed, "is of none of the prefixes")


def by_slot(**changes):
    """A document whose attempt was named by subtask and slot."""
    committables = tuple(
        replace(each, transactional_id=f"shop.orders-{each.subtask}.2") for each in document().committables
    )
    return document(**{"slots": SlotBounds(4, 5), "committables": committables, **changes})


def test_round_trip_of_ids_by_subtask_and_slot():
    assert decode(encode(by_slot()), job_uid=UID) == by_slot()
    body_of_it = json.loads(encode(by_slot()))
    assert body_of_it["slotIds"] == {"parallelism": 4, "poolSize": 5}


def test_a_document_of_a_job_that_never_had_them_is_written_and_read_without():
    assert "slotIds" not in body()
    previous = document(committables=by_slot().committables, slots=SlotBounds(3, 3), previous_prefixes=("shop.old",))
    renamed = replace(previous, prefix="shop.new", previous_prefixes=("shop.orders",))
    assert decode(encode(renamed), job_uid=UID) == renamed


@pytest.mark.parametrize("slots", [SlotBounds(2, 5), SlotBounds(3, 2), SlotBounds()])
def test_a_committable_beyond_what_slot_ids_reach_to(slots):
    assert 2 in {each.subtask for each in by_slot().committables}
    refused(encode(by_slot(slots=slots)), "as far as slotIds reach")


def test_a_committable_under_another_subtasks_id():
    changed = json.loads(encode(by_slot()))
    changed["committables"][0]["transactionalId"] = "shop.orders-3.2"
    refused(changed, "has no id shop.orders-3.2")


@pytest.mark.parametrize(
    "slot_ids",
    [
        {}, {"parallelism": 4}, {"poolSize": 5}, {"parallelism": -1, "poolSize": 5}, {"parallelism": 4, "poolSize": 0},
        {"parallelism": 0, "poolSize": 5}, {"parallelism": 1025, "poolSize": 5}, {"parallelism": 4, "poolSize": 101},
        {"parallelism": "4", "poolSize": 5}, {"parallelism": 4, "poolSize": 5, "more": 1}, [], None, 4,
    ],
    ids=json.dumps,
)  # fmt: skip
def test_slot_ids_that_cannot_be(slot_ids):
    refused({**json.loads(encode(by_slot())), "slotIds": slot_ids})


def test_another_jobs_document_is_foreign():
    with pytest.raises(CheckpointForeign, match="another-uid"):
        decode(encode(document()), job_uid="another-uid")


@pytest.mark.parametrize("cut", [0, 1, 10, 0.5, -2, -1])
def test_truncated(cut):
    text = encode(document())
    refused(text[: int(len(text) * cut)] if isinstance(cut, float) else text[:cut], "not JSON")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "null",
        "[]",
        "7",
        '"text"',
        "{",
        "}{",
        '{"formatVersion":1}',
        "\ufeff{}",
        "{'a':1}",
        "NaN",
        '{"a":Infinity}',
    ],
)
def test_not_a_document(text):
    refused(text)


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"splits":[['])
def test_bombs_of_nesting_are_refused_without_harm(opening):
    refused(opening * (MAX_DOCUMENT_BYTES // len(opening) // 2))


def test_numbers_of_many_digits_are_refused():
    refused(encode(document()).replace('"checkpointId":17', '"checkpointId":' + "9" * 100_000))


def test_too_large_to_read():
    refused(encode(document())[:-1] + " " * MAX_DOCUMENT_BYTES + "}", "larger than")
    refused("ü" * (MAX_DOCUMENT_BYTES // 2 + 1), "larger than")


def test_too_large_to_write():
    many = tuple(KafkaPartitionSplit(TopicPartition("t" * 200, number), 1 << 40, 1 << 41) for number in range(30_000))
    with pytest.raises(CheckpointTooLarge, match=str(MAX_DOCUMENT_BYTES)):
        encode(document(splits=many))


def test_too_large_an_engine_text():
    refused(body(engine="x" * (MAX_ENGINE_BYTES + 1)), "engine")
    with pytest.raises(CheckpointTooLarge, match=r"engine's text needs 65537 characters") as raised:
        encode(document(engine="x" * (MAX_ENGINE_BYTES + 1)))
    assert "sparkConf" in raised.value.remedy
    longest = document(engine="x" * MAX_ENGINE_BYTES)
    assert decode(encode(longest), job_uid=UID) == longest


@pytest.mark.parametrize("version", [0, LOCAL_FORMAT_VERSION, LOCAL_FORMAT_VERSION + 1, -1, 999, "1", 1.0, True, None])
def test_unknown_format_version(version):
    refused(body(formatVersion=version))


@pytest.mark.parametrize("name", sorted(body()))
def test_A17_a_missing_field(name):
    """Flink: a state of before the ownership was known asks to migrate first."""
    changed = body()
    del changed[name]
    refused(changed, f"{name} is missing")


@pytest.mark.parametrize("name", sorted(body()["committables"][0]))
def test_a_missing_field_of_a_committable(name):
    changed = body()
    del changed["committables"][0][name]
    refused(changed, f"{name} is missing")


@pytest.mark.parametrize("place", ["document", "hint", "counters", "committable"])
def test_A15_an_unknown_field(place):
    """Flink: "Not uniformly assigned", of subtasks that remember different parallelisms. Only the document has one."""
    changed = body()
    target = {
        "document": changed, "hint": changed["hint"], "counters": changed["counters"],
        "committable": changed["committables"][0],
    }[place]  # fmt: skip
    target["surprise"] = 1
    refused(changed, "surprise")


def _wrong_values():
    legal = {"formerPrefixes": [[]], "committables": [[]], "splits": [{}], "createdAt": ["x"], "engine": ["x"],
             "witnessGroup": ["x"], "aligned": [True], "drained": [True], "engineHasState": [True]}  # fmt: skip
    for name in sorted(body()):
        for wrong in (None, [], {}, "x", -1, 1.5, True, [1], {"a": 1}):
            if not any(type(wrong) is type(each) and wrong == each for each in legal.get(name, [])):
                yield pytest.param(name, wrong, id=f"{name}-{wrong!r}")


@pytest.mark.parametrize(("name", "wrong"), [*_wrong_values()])
def test_a_field_of_the_wrong_type(name, wrong):
    with pytest.raises((CheckpointCorrupt, CheckpointForeign)):
        decode(json.dumps(body(**{name: wrong})), job_uid=UID)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("producerEpoch", 32768), ("producerEpoch", -1), ("producerId", -1), ("subtask", 3), ("transactionalId", ""),
        ("records", -1), ("producerId", 1 << 63), ("producerEpoch", 1.0), ("producerEpoch", False),
    ],
)  # fmt: skip
def test_A14_values_of_a_committable_that_cannot_be(name, wrong):
    """Flink: "State not consecutively assigned", for a subtask that is not below the parallelism."""
    changed = body()
    changed["committables"][0][name] = wrong
    refused(changed)


@pytest.mark.parametrize(
    "splits",
    [
        {"orders": []}, {"orders": {"x": [0, 1]}}, {"orders": {"-1": [0, 1]}}, {"orders": {"01": [0, 1]}},
        {"orders": {"0": [1, 0]}}, {"orders": {"0": [-1, 0]}}, {"orders": {"0": [0]}}, {"orders": {"0": [0, 1, 2]}},
        {"orders": {"0": ["0", 1]}}, {"orders": {"0": [0, True]}}, {"orders": {"0": {"start": 0}}},
        {"orders": {"٣": [0, 1]}}, {"orders": None}, {"orders": {"0": [0, 1 << 63]}},
        {"orders": {"2147483648": [0, 1]}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_splits_that_cannot_be(splits):
    refused(body(splits=splits))


def test_a_range_that_does_not_fit_its_committable():
    """A subtask that wrote what it read has read something."""
    writer = next(each for each in document().committables if each.records)
    splits = tuple(
        replace(split, start=split.stop) if split.owner(3) == writer.subtask else split for split in document().splits
    )
    edited = replace(document(), splits=splits)
    refused(encode(edited), f"{writer.transactional_id} of subtask {writer.subtask} holds records")
    assert decode(encode(replace(edited, aligned=False)), job_uid=UID).splits == splits


@pytest.mark.parametrize("value", [0, 1 << 31])
@pytest.mark.parametrize("name", ["attempt", "parallelism"])
def test_numbers_that_nothing_else_could_hold(name, value):
    refused(body(**{name: value}), f"{name} must be a whole number from 1 to 2147483647")


@pytest.mark.parametrize(("edited", "more", "total"), [(3, -10, 0), ((1 << 63) - 1, 5, (1 << 63) - 1), (3, 4, 7)])
def test_totals_that_were_edited_never_make_a_document_unreadable(edited, more, total):
    counters = Counters(records_in=edited).plus(records_in=more)
    assert decode(encode(document(counters=counters)), job_uid=UID).counters.records_in == total


def test_two_committables_of_one_id():
    changed = body()
    changed["committables"][1]["transactionalId"] = changed["committables"][0]["transactionalId"]
    refused(changed, "same transactional id")


def test_a_claim_of_a_first_start_has_nothing_to_commit():
    refused(body(checkpointId=0), "before the first checkpoint")


@pytest.mark.parametrize("bounded", [
    {"stopping": "", "finished": False, "stops": {"orders": {"0": 9}}}, {"stopping": "", "finished": True, "stops": {}},
])  # fmt: skip
def test_stops_without_the_setting_behind_them(bounded):
    """They would be missing in the next document."""
    refused(body(bounded=bounded), "stopping")


HALF = "\ud800"


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        {"createdAt": HALF}, {"engine": HALF}, {"witnessGroup": HALF}, {"clusterId": HALF},
        {"splits": {**json.loads(encode(document()))["splits"], HALF: {"0": [0, 0]}}},
        {"bounded": {"stopping": HALF, "finished": False, "stops": {}}},
    ],
    ids=ascii,
)  # fmt: skip
def test_half_a_surrogate_pair_cannot_be_written(changes, escaped):
    refused(json.dumps(body(**changes), ensure_ascii=escaped), "surrogates")


def test_a_whole_surrogate_pair_is_a_character():
    assert decode(json.dumps(body(engine="\U0001f600")), job_uid=UID).engine == "\U0001f600"


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpointId": (1 << 63) - 1}, {"checkpointId": 10**18},
        {"hint": {"lastParallelism": 1, "nextFreeTransactionalId": 10**18}},
        {"hint": {"lastParallelism": 1 << 31, "nextFreeTransactionalId": 0}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_numbers_without_room_for_the_next(changes):
    refused(body(**changes), "must be a whole number from 0 to")


def test_numbers_of_a_job_of_many_years_have_a_readable_successor():
    read = decode(
        encode(document(checkpoint_id=10**15, hint=TransactionalIdHint(1, 10**15), committables=())), job_uid=UID
    )
    later = replace(read, checkpoint_id=read.checkpoint_id + 1, hint=read.hint.advance(parallelism=1024, pool_size=100))
    assert decode(encode(later), job_uid=UID) == later


def test_a_field_named_twice():
    text = encode(document())
    refused(text[:-1] + ',"attempt":9}', "twice")
    refused(text.replace('"hint":{', '"hint":{"lastParallelism":1,'), "twice")


@pytest.mark.parametrize(
    "hint", [{"lastParallelism": -1, "nextFreeTransactionalId": 0}, {"lastParallelism": 1}, {}, []]
)
def test_a_hint_that_cannot_be(hint):
    refused(body(hint=hint))


@pytest.mark.parametrize("prefix", ["", "a b", "a/b", "ü", "x" * 250])
def test_a_prefix_that_cannot_be(prefix):
    refused(body(prefix=prefix, transactionalIdPrefix=prefix, committables=[]))
    refused(body(formerPrefixes=[prefix]))


def test_every_single_deleted_character_is_refused_or_still_a_document():
    """No flipped byte may end in anything but our errors or a document that passes every check."""
    text = encode(document())
    for position in range(0, len(text), 3):
        damaged = text[:position] + text[position + 1 :]
        try:
            decode(damaged, job_uid=UID)
        except (CheckpointCorrupt, CheckpointForeign):
            continue


def test_ten_thousand_partitions_fit_as_the_documentation_says():
    """100 topics of 100 partitions with offsets of ten digits, as in ``bench.micro.enumerator``: docs/metrics.md."""
    splits = tuple(
        KafkaPartitionSplit(TopicPartition(f"enumerator-abcdef-{topic:04}", number), 4_000_000_000, 4_000_001_000)
        for topic in range(100)
        for number in range(100)
    )
    text = encode(document(splits=splits, committables=()))
    assert decode(text, job_uid=UID).splits == splits
    size = len(text.encode())
    assert size < 292_500, "292 KB"
    assert round(100 * size / MAX_DOCUMENT_BYTES) == 37


def test_C10_a_document_of_a_release_that_noted_a_transaction_version_is_read():
    """It asserted 1 and nobody looked: EndTxn's version alone decides (case P12)."""
    changed = body()
    assert changed["committables"]
    for each in changed["committables"]:
        assert "transactionVersion" not in each
        each["transactionVersion"] = 1
    assert decode(json.dumps(changed), job_uid=UID) == document()


def test_the_ids_of_cluster_and_topics_are_kept_and_may_be_missing():
    ids = {"orders": "AbCdEfGh-_", "täglich.über-alles_1": "0123456789"}
    each = document(cluster_id="abc", topic_ids=ids)
    assert decode(encode(each), job_uid=UID) == each
    assert decode(encode(document()), job_uid=UID).topic_ids == {}
    body = json.loads(encode(each))
    assert body["splits"]["orders"]["id"] == "AbCdEfGh-_"
    assert body["splits"]["idle"].keys() == {"0", "1", "2", "3"}


@pytest.mark.parametrize("bad", ["", "short", "elevenchars", "ten/chars!", 7, None, ["AbCdEfGh-_"]])
def test_a_topic_id_that_is_none_is_refused(bad):
    body = json.loads(encode(document(topic_ids={"orders": "AbCdEfGh-_"})))
    body["splits"]["orders"]["id"] = bad
    with pytest.raises(CheckpointCorrupt, match="'orders' has an id that is none"):
        decode(json.dumps(body), job_uid=UID)


def test_ten_thousand_topics_of_one_partition_fit_with_their_ids():
    names = [f"orders.region-{number:05}" for number in range(10_000)]
    splits = tuple(KafkaPartitionSplit(TopicPartition(name, 0), 1_000_000_000, 1_000_001_000) for name in names)
    text = encode(document(splits=splits, committables=(), topic_ids=dict.fromkeys(names, "AbCdEfGh-_")))
    assert len(text.encode()) <= MAX_DOCUMENT_BYTES


def local_document(**changes):
    """Of the local pace; the topics ``idle`` and ``orders`` are placed."""
    placed = frozenset(split.partition for split in SPLITS if split.partition.topic in {"idle", "orders"})
    base = document(
        committables=(), slots=SlotBounds(3, 1), evidence_group="group", local=LocalPart(era=4, placed=placed)
    )
    return replace(base, **changes)


def test_round_trip_of_the_local_pace():
    for ended in (False, True):
        known = local_document(drained=ended)
        known = replace(known, local=replace(known.local, ended=ended))
        assert decode(encode(known), job_uid=UID) == known
    body = json.loads(encode(local_document()))
    assert body["formatVersion"] == 2
    assert body["splits"]["orders"]["1"] == [10, 17]
    assert body["splits"]["täglich.über-alles_1"]["1"] == [10, 13, "new"]


def test_earlier_releases_read_any_other_document():
    body = json.loads(encode(document()))
    assert body["formatVersion"] == 1
    assert "local" not in body


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("formatVersion", 1),
        ("slotIds", None),
        ("witnessGroup", ""),
        ("aligned", False),
        ("local", None),
        ("local", {}),
        ("local", {"era": 5, "ended": False}),
        ("local", {"era": 0, "ended": False}),
        ("local", {"era": 4, "ended": 0}),
        ("local", {"era": 4, "ended": False, "more": 1}),
        ("local", {"era": 4, "ended": False, "forgotAt": 1000}),
        ("local", {"era": 4, "ended": False, "forgotAt": "1"}),
        ("splits", {"orders": {"0": [1, 2, "old"]}}),
        ("splits", {"orders": {"0": [1, 2, "new", 3]}}),
        ("splits", {"orders": {"0": [1, "new"]}}),
        ("committables", json.loads(encode(document()))["committables"]),
    ],
)
def test_a_document_of_the_local_pace_that_cannot_be(name, value):
    body = json.loads(encode(local_document()))
    body[name] = value
    if value is None:
        del body[name]
    refused(json.dumps(body))


def test_ten_thousand_topics_that_are_not_placed_fit():
    names = [f"orders.region-{number:05}" for number in range(10_000)]
    splits = tuple(KafkaPartitionSplit(TopicPartition(name, 0), 1_000_000_000, 1_000_001_000) for name in names)
    known = local_document(splits=splits, local=LocalPart(era=4), topic_ids=dict.fromkeys(names, "AbCdEfGh-_"))
    assert len(encode(known).encode()) <= MAX_DOCUMENT_BYTES
