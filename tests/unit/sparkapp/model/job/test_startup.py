"""Startup and stopping choices as a user writes them."""

from __future__ import annotations

import pytest

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.json_parts import decode_part, encode_part
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.job.startup import (
    PartitionOffset,
    ResetStrategy,
    Startup,
    StartupMode,
    Stopping,
    StoppingMode,
    partitions_from,
)
from sparkapp.model.partition import TopicPartition

NAMED = [{"topic": "a", "partition": 0, "offset": 42}, {"topic": "a", "partition": 1, "offset": 0}]


def source(**choices):
    body = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["a"], **choices}, "sink": {"topic": "out"}}
    return spec_from_resource(body, namespace="shop", name="orders").source


def startup(**body):
    return source(startup=body).startup


def stopping(**body):
    return source(stopping=body).stopping


def test_group_offsets_are_the_default_and_missing_ones_begin_earliest():
    assert (startup().mode, startup().on_missing) == (StartupMode.GROUP_OFFSETS, ResetStrategy.EARLIEST)


def test_a_timestamp_without_a_later_record_means_latest():
    assert startup(mode="Timestamp", timestampMillis=5).on_missing is ResetStrategy.LATEST
    chosen = startup(mode="Timestamp", timestampMillis=5, onMissingOffset="Fail")
    assert (chosen.on_missing, chosen.timestamp_millis) == (ResetStrategy.FAIL, 5)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00Z", 1767225600000),
        ("2026-01-01T01:30:00+01:30", 1767225600000),
        ("2025-12-31T23:59:59.999-00:00", 1767225599999),
        ("2025-12-31t23:59:59.999001z", 1767225600000),
    ],
)
def test_a_time_in_rfc_3339_is_the_same_time_in_milliseconds(text, millis):
    assert startup(mode="Timestamp", timestamp=text).timestamp_millis == millis
    assert stopping(mode="Timestamp", timestamp=text).timestamp_millis == millis


def test_specific_offsets_keep_their_order_and_zero_is_an_offset():
    assert startup(mode="SpecificOffsets", specificOffsets=NAMED).specific_offsets == (
        PartitionOffset("a", 0, 42), PartitionOffset("a", 1, 0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"mode": "Timestamp"}, "spec.source.startup: timestamp or timestampMillis is needed with mode Timestamp"),
        ({"mode": "Latest", "timestampMillis": 1}, "timestampMillis is needed with mode Timestamp, and"),
        ({"mode": "Timestamp", "timestampMillis": -1}, "timestampMillis must be a whole number of at least 0"),
        ({"mode": "SpecificOffsets"}, "source.startup: specificOffsets is needed with mode SpecificOffsets"),
        ({"specificOffsets": NAMED}, "source.startup: specificOffsets is needed with mode SpecificOffsets, and only"),
        (
            {"mode": "SpecificOffsets", "specificOffsets": [NAMED[0], NAMED[0]]},
            "a partition has two offsets",
        ),
        ({"mode": "SpecificOffsets", "specificOffsets": [{"topic": "a", "offset": 1}]}, r"\[0\].partition is missing"),
        ({"mode": "SpecificOffsets", "specificOffsets": [{"topic": "a", "partition": 1}]}, r"\[0\].offset is missing"),
        ({"mode": "Timestamp", "timestamp": "2026-02-30T00:00:00Z"}, "startup.timestamp must be a time in RFC 3339"),
        ({"mode": "Timestamp", "timestamp": "2026-01-01T00:00:00"}, "startup.timestamp must be a time in RFC 3339"),
        ({"mode": "Timestamp", "timestamp": "1969-12-31T23:59:59Z"}, "startup.timestamp must not be before 1970"),
        ({"mode": "Timestamp", "timestamp": "2026-01-01T00:00:00Z", "timestampMillis": 5}, "are both set"),
        ({"mode": "Latest", "timestamp": "2026-01-01T00:00:00Z"}, "is needed with mode Timestamp, and only"),
        ({"mode": "EARLIEST_OFFSET"}, "must be one of GroupOffsets, Earliest, Latest, Timestamp, SpecificOffsets"),
    ],
)
def test_what_cannot_work_is_refused_with_the_field(body, message):
    with pytest.raises(ConfigurationError, match=message):
        startup(**body)


def test_a_job_is_unbounded_by_default_and_bounded_by_every_other_mode():
    assert not stopping().bounded
    assert stopping(mode="Latest").bounded
    assert stopping(predicate="value = 'END'").bounded
    with pytest.raises(ConfigurationError, match=r"stopping: timestamp or timestampMillis is needed with mode"):
        stopping(mode="Timestamp")
    with pytest.raises(ConfigurationError, match="must be one of Unbounded"):
        stopping(mode="Earliest")


def test_a_fingerprint_distinguishes_choices_and_an_unbounded_job_has_none():
    texts = [
        stopping(mode="Latest").fingerprint,
        stopping(mode="Timestamp", timestampMillis=1).fingerprint,
        stopping(mode="Timestamp", timestampMillis=2).fingerprint,
        stopping(mode="SpecificOffsets", specificOffsets=NAMED).fingerprint,
    ]
    assert len(set(texts)) == len(texts)
    assert stopping().fingerprint == ""
    assert stopping(mode="Latest").fingerprint == texts[0]
    assert stopping(predicate="offset > 5").fingerprint != stopping(predicate="offset > 6").fingerprint
    assert stopping(mode="Latest", predicate="true").fingerprint != texts[0]
    assert "predicate" not in texts[0], "as in the documents of releases that knew none"


def test_what_the_operator_writes_the_driver_reads():
    begin = startup(mode="SpecificOffsets", specificOffsets=NAMED)
    end = stopping(mode="Timestamp", timestampMillis=7, predicate="value = 'END'")
    assert decode_part(Startup, encode_part(begin), "startup") == begin
    assert decode_part(Stopping, encode_part(end), "stopping") == end
    assert end.mode is StoppingMode.TIMESTAMP


def test_partitions_are_a_list_of_topics_with_numbers():
    fields = Fields({"partitions": [{"topic": "a", "partitions": [2, 0]}, {"topic": "b", "partitions": [1]}]}, "source")
    assert partitions_from(fields, "partitions") == (
        TopicPartition("a", 2), TopicPartition("a", 0), TopicPartition("b", 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"topic": "a"}], r"partitions\[0\].partitions is missing: it must be a list"),
        ([{"topic": "a", "partitions": []}], "must be a list of whole numbers"),
        ([{"topic": "a", "partitions": ["0"]}], "must be a list of whole numbers"),
        ([{"topic": "a", "partitions": [-1]}], "must be a list of whole numbers"),
        ([{"partitions": [1]}], r"partitions\[0\].topic is missing"),
        ([{"topic": "a", "partitions": [1]}, {"topic": "a", "partitions": [1]}], "partition a-1 is named twice"),
    ],
)
def test_partitions_that_cannot_be_are_refused(entries, message):
    with pytest.raises(ConfigurationError, match=message):
        partitions_from(Fields({"partitions": entries}, "source"), "partitions")
