"""Report and last word: advisory texts that anybody in the pod may have written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparkapp.model.errors import CheckpointCorrupt, ProducersPoolEmpty, QueryStateMissing
from sparkapp.model.event_reason import Durability
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import (
    MAX_BEGINNINGS,
    MAX_EVENTS,
    MAX_MESSAGE,
    MAX_PARTITION_LOADS,
    MAX_REPORT_BYTES,
    MAX_TERMINATION_BYTES,
    MAX_TOPIC,
    AttemptOutcome,
    DriverState,
    Load,
    PartitionLoad,
    Report,
    ReportEvent,
    Termination,
    beginnings_of,
    decode_report,
    decode_termination,
    encode_report,
    encode_termination,
    termination_of,
)

LOAD = Load(
    window_millis=3000, busy_percent=64, lag=9, arrived_per_second=500, read_per_second=490, partitions=8,
    heaviest=(PartitionLoad("in", 3, 9, 400, 390), PartitionLoad("in", 0, 0, 100, 100)),
)  # fmt: skip
REPORT = Report(
    job_uid="uid", attempt=2, state=DriverState.RUNNING, updated_at="2026-11-21T08:00:00Z", checkpoint_id=7,
    engine="Continuous", engine_message="set by spec.engine",
    durability=Durability.NOT_REPLICATED, durability_message="topic out has one copy",
    load=LOAD, lag_records=9, records_in=100, records_out=99, commits_succeeded=6, commits_failed=1,
    events=(ReportEvent(sequence=1, type="Warning", reason="TransactionsLost", message="two", time="t"),),
)  # fmt: skip


def encoded(load):
    return json.loads(encode_report(replace(REPORT, load=load)))["load"]


def changed(**fields):
    return json.dumps({**json.loads(encode_report(REPORT)), **fields})


def test_report_round_trip():
    assert decode_report(encode_report(REPORT), job_uid="uid") == REPORT


def test_an_unknown_lag_stays_unknown_and_a_previous_release_reads_it_as_a_number():
    text = encode_report(replace(REPORT, lag_records=None))
    assert json.loads(text)["lag_records"] == 0
    assert decode_report(text, job_uid="uid").lag_records is None


def test_a_report_of_a_driver_without_heartbeats_is_read():
    body = json.loads(encode_report(REPORT))
    del body["lag_known"], body["heartbeat_seconds"]
    found = decode_report(json.dumps(body), job_uid="uid")
    assert (found.lag_records, found.heartbeat_seconds) == (9, 0)


def test_a_report_of_a_driver_that_names_no_engine_is_read():
    body = json.loads(encode_report(REPORT))
    del body["engine"], body["engine_message"]
    found = decode_report(json.dumps(body), job_uid="uid")
    assert (found.engine, found.engine_message, found.checkpoint_id) == ("", "", 7)


def test_a_report_of_a_driver_that_counts_no_commits_is_read():
    body = json.loads(encode_report(REPORT))
    del body["commits_succeeded"], body["commits_failed"]
    found = decode_report(json.dumps(body), job_uid="uid")
    assert (found.commits_succeeded, found.commits_failed, found.checkpoint_id) == (0, 0, 7)


@pytest.mark.parametrize("said", [{}, {"durability": "OfTheNextRelease"}, {"durability": ""}])
def test_a_report_of_a_driver_of_another_release_says_nothing_of_durability(said):
    body = json.loads(encode_report(REPORT))
    del body["durability"]
    found = decode_report(json.dumps({**body, **said}), job_uid="uid")
    assert (found.durability, found.checkpoint_id) == (Durability.NOT_OBSERVED, 7)


@pytest.mark.parametrize(
    "text",
    ["", "null", "7", "[]", "{}", "{", "[" * 30_000, " " * (MAX_REPORT_BYTES + 1), '{"job_uid":"uid"}', "\x00"],
    ids=lambda text: text[:20],
)
def test_garbage_is_no_report(text):
    assert decode_report(text, job_uid="uid") is None


def test_another_jobs_report_is_none():
    assert decode_report(encode_report(REPORT), job_uid="other") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attempt", "2"), ("attempt", -1), ("attempt", True), ("attempt", 1 << 63),
        ("state", "Dancing"), ("state", None),
        ("engine", "Steam"), ("engine", 7), ("engine_message", None),
        ("durability", 7), ("durability", ["Replicated"]), ("durability_message", None),
        ("updated_at", 7), ("events", 7), ("events", [7]), ("events", [{}]), ("events", {"a": 1}),
        ("events", [{"sequence": "1", "type": "Normal", "reason": "r", "message": "m", "time": "t"}]),
        ("records_in", 1.5), ("lag_records", None), ("checkpoint_time", []), ("commits_failed", -1),
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_kind_is_no_report(name, value):
    assert decode_report(changed(**{name: value}), job_uid="uid") is None


@pytest.mark.parametrize(
    "load",
    [
        None, 7, [], "busy", {}, {**encoded(LOAD), "lag": -1}, {**encoded(LOAD), "lag": 1.5},
        {**encoded(LOAD), "lag": float("inf")}, {**encoded(LOAD), "busy_percent": "64"},
        {**encoded(LOAD), "window_millis": 0}, {**encoded(LOAD), "partitions": 1 << 63},
        {**encoded(LOAD), "heaviest": 7}, {**encoded(LOAD), "heaviest": [[]]},
        {**encoded(LOAD), "heaviest": [["in", 0]]}, {**encoded(LOAD), "heaviest": [[7, 0, 0, 0, 0]]},
        {**encoded(LOAD), "heaviest": [["in", 0, 0, 0, 0, 0]]}, {**encoded(LOAD), "heaviest": [["in", -1, 0, 0, 0]]},
        {**encoded(LOAD), "heaviest": {"in": 0}},
    ],
)  # fmt: skip
def test_a_load_that_cannot_be_read_is_unknown_and_the_report_stands(load):
    assert decode_report(changed(load=load), job_uid="uid") == replace(REPORT, load=None)


A0 = TopicPartition("a", 0)


def test_beginnings_come_back():
    found = beginnings_of({A0: 7, TopicPartition("b", 3): 0}, topic_ids={"a": "0123456789"}, cluster_id="kafka-1")
    assert decode_report(encode_report(replace(REPORT, beginnings=found)), job_uid="uid").beginnings == found


@pytest.mark.parametrize(
    "body", [7, {}, {"offsets": []}, {"offsets": {"a": {"x": 1}}}, {"offsets": {"a": {"0": -1}}}, {"offsets": {"a": 3}}]
)
def test_beginnings_that_cannot_be_read_are_unknown_and_the_report_stands(body):
    found = decode_report(json.dumps(json.loads(encode_report(REPORT)) | {"beginnings": body}), job_uid="uid")
    assert found == REPORT


@pytest.mark.parametrize(
    "partitions",
    [
        {}, {TopicPartition("a", number): 0 for number in range(MAX_BEGINNINGS + 1)},
        {TopicPartition(f"{number}-{'x' * 240}", 0): 0 for number in range(MAX_BEGINNINGS)},
    ],
    ids=["none", "many", "long names"],
)  # fmt: skip
def test_beginnings_that_have_no_room_are_unknown(partitions):
    assert beginnings_of(partitions, topic_ids={}, cluster_id="") is None


def test_a_load_is_bounded():
    rows = [["in" * 200, number, 1, 1, 1] for number in range(2 * MAX_PARTITION_LOADS)]
    found = decode_report(changed(load={**encoded(LOAD), "busy_percent": 9999, "heaviest": rows}), job_uid="uid")
    assert found.load.busy_percent == 100
    assert len(found.load.heaviest) == MAX_PARTITION_LOADS
    assert {len(each.topic) for each in found.load.heaviest} == {MAX_TOPIC}


def test_a_report_with_the_longest_topics_can_be_read():
    rows = tuple(PartitionLoad("ä" * MAX_TOPIC, number, *[(1 << 63) - 1] * 3) for number in range(MAX_PARTITION_LOADS))
    full = replace(REPORT, load=replace(LOAD, heaviest=rows))
    assert decode_report(encode_report(full), job_uid="uid") == full


TIMES = ("checkpoint_time", "oldest_transaction_time")


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "yesterday", "7", "\ud800"])
def test_a_time_that_nothing_can_be_added_to_is_no_report(name, value):
    assert decode_report(changed(**{name: value}), job_uid="uid") is None


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("", ""), ("2026-11-21T08:00:00Z", "2026-11-21T08:00:00Z"), ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
        ("2026-11-21T08:00:00.5+02:00", "2026-11-21T06:00:00Z"), ("2026-11-21\ud80008:00:00", "2026-11-21T08:00:00Z"),
    ],
)  # fmt: skip
def test_times_are_written_as_kubernetes_writes_them(name, value, known):
    assert getattr(decode_report(changed(**{name: value}), job_uid="uid"), name) == known


def test_every_text_can_be_sent():
    event = {"sequence": 1, "type": "Normal", "reason": "r", "message": "m\ud800", "time": "\udcff"}
    found = decode_report(changed(events=[event], engine_message="\udfff", updated_at="\ud800"), job_uid="uid")
    assert (found.events[0].message, found.events[0].time) == ("m?", "?")
    assert (found.engine_message, found.updated_at) == ("?", "?")
    body = json.loads(encode_termination(termination_of(CheckpointCorrupt("x"))))
    assert decode_termination(json.dumps({**body, "message": "\ud800"})).message == "?"


def test_long_texts_are_cut_and_events_bounded():
    event = {"sequence": 1, "type": "Evil", "reason": "r" * 500, "message": "m" * 3000, "time": "t" * 100}
    text = changed(events=[event] * 15, updated_at="u" * 99)
    found = decode_report(text, job_uid="uid")
    assert len(found.events) <= MAX_EVENTS
    assert {len(each.message) for each in found.events} == {MAX_MESSAGE}
    assert {each.type for each in found.events} == {"Normal"}
    assert len(found.updated_at) == 40


def test_termination_round_trip():
    last = Termination(
        outcome=AttemptOutcome.FAILED, reason="StateUncertain", message="m", remedy="r", fatal=True, checkpoint_id=3
    )
    assert decode_termination(encode_termination(last)) == last


@pytest.mark.parametrize(
    "text",
    ["", "Killed", "{}", "[]", '{"outcome":"Won"}', "[" * 4000, "x" * (MAX_TERMINATION_BYTES + 1)],
    ids=lambda text: text[:20],
)
def test_garbage_is_no_last_word(text):
    assert decode_termination(text) is None


@pytest.mark.parametrize("fatal", ["true", 1, None])
def test_only_true_is_fatal(fatal):
    body = json.loads(encode_termination(termination_of(CheckpointCorrupt("x"))))
    assert body["fatal"] is True
    assert decode_termination(json.dumps({**body, "fatal": fatal})).fatal is False


def test_a_reason_of_the_previous_release_has_its_present_name():
    termination = termination_of(QueryStateMissing("gone"))
    found = decode_termination(encode_termination(replace(termination, reason="OperatorStateMissing")))
    assert found == termination


def test_our_errors_name_reason_and_remedy():
    last = termination_of(ProducersPoolEmpty("Too many ongoing snapshots"), checkpoint_id=4)
    assert (last.reason, last.fatal, last.checkpoint_id) == ("ProducersPoolEmpty", False, 4)
    assert "producersPoolSize" in last.remedy


def test_other_errors_are_shown_as_they_are_and_fit_the_log():
    last = termination_of(RuntimeError("ü" * 5000))
    assert last.reason == "InternalError"
    assert last.message.startswith("RuntimeError: ")
    assert len(encode_termination(last).encode()) <= MAX_TERMINATION_BYTES


def test_an_error_that_names_a_file_in_another_encoding_has_a_message():
    last = encode_termination(termination_of(RuntimeError("caf\udce9")))
    assert decode_termination(last).message == "RuntimeError: caf?"
