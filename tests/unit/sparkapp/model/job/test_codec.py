"""A job's description between releases: operator and image are upgraded one after the other, in either order."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from resourceschema.defaults import defaults
from sparkapp.model.encoding.json_parts import UnknownPart, decode_part, encode_part
from sparkapp.model.errors import ConfigurationError, ReleaseMismatch
from sparkapp.model.job.codec import FORMAT, decode_job, encode_job
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.spec import Job
from tests.unit.sparkapp.model.job.test_spec import BASIC, CA, FULL, SMALLEST, parsed, spec

GOLDEN = Path(__file__).parent / "golden"
REGISTRY = spec(
    source={
        "topics": [],
        "partitions": [{"topic": "in", "partitions": [0, 1]}],
        "startup": {"mode": "SpecificOffsets", "specificOffsets": [{"topic": "in", "partition": 0, "offset": 4}]},
        "format": {"value": "avro", "valueSchema": '{"type": "string"}'},
        "schemaRegistry": {"url": "https://r", "authentication": BASIC, "tls": CA},
    }
)
FIRST = {"smallest": SMALLEST, "full": FULL, "registry": REGISTRY}


def job(value) -> Job:
    return Job(namespace="shop", name="orders", uid="uid", generation=3, attempt=2, spec=parsed(value))


def body_of(value):
    return json.loads(encode_job(job(value)))


@pytest.mark.parametrize("name", sorted(FIRST))
def test_what_the_first_operators_of_this_format_wrote_is_read(name: str) -> None:
    text = (GOLDEN / f"job-{name}.2.json").read_text()
    assert decode_job(text) == job(FIRST[name])


@pytest.mark.parametrize("name", sorted(FIRST))
def test_the_first_images_of_this_format_find_nothing_that_they_do_not_know(name: str) -> None:
    assert body_of(FIRST[name]) == json.loads((GOLDEN / f"job-{name}.2.json").read_text())


@pytest.mark.parametrize("value", FIRST.values(), ids=FIRST)
def test_what_this_release_writes_it_reads(value) -> None:
    assert decode_job(encode_job(job(value))) == job(value)


def test_a_field_at_its_default_is_not_written_for_older_images() -> None:
    sink = body_of(SMALLEST)["spec"]["sink"]
    assert "producers_pool_size" not in sink
    assert body_of(spec(sink={"transactions": {"producersPoolSize": 7}}))["spec"]["sink"]["producers_pool_size"] == 7


def test_a_field_that_an_older_operator_does_not_write_has_its_default() -> None:
    body = body_of(FULL)
    sink = body["spec"]["sink"]
    for name in ("topic_from", "partitioner", "transaction_naming", "properties"):
        del sink[name]
    found = decode_job(json.dumps(body)).spec
    default = Sink(topic="t", transactional_id_prefix="p")
    assert (found.sink.partitioner, found.sink.transaction_naming) == (default.partitioner, default.transaction_naming)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("later",), 1, "later"),
        (("spec", "later"), {}, "spec.later"),
        (("spec", "sink", "later"), "Keep", "spec.sink.later"),
        (("spec", "source", "startup", "later"), None, "spec.source.startup.later"),
        (("spec", "source", "group_membership", "later"), 0, "spec.source.group_membership.later"),
        (("spec", "kafka", "later"), True, "spec.kafka.later"),
        (("spec", "sink", "partitioner"), "Sticky", "spec.sink.partitioner has 'Sticky'"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_what_an_older_image_does_not_know_it_refuses_by_name_and_says_what_heals(path, value, words) -> None:
    body = body_of(SMALLEST)
    place = body
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = value
    with pytest.raises(ReleaseMismatch) as caught:
        decode_job(json.dumps(body))
    assert words in caught.value.message
    assert "older than the operator" in caught.value.message
    assert "spec.image" in caught.value.remedy


def test_the_mismatch_is_tried_again_for_another_operator_or_image_heals_it() -> None:
    assert issubclass(ReleaseMismatch, ConfigurationError)
    assert not ReleaseMismatch.fatal
    assert ReleaseMismatch.reason == "ReleaseMismatch"


def test_a_later_format_is_refused_before_anything_of_it_is_read() -> None:
    body = {"format_version": FORMAT + 1, "anything": "else"}
    with pytest.raises(ReleaseMismatch, match=f"format {FORMAT + 1}, and this image reads up to {FORMAT}"):
        decode_job(json.dumps(body))
    assert decode_job(json.dumps({"format_version": FORMAT, **body_of(SMALLEST)})) == job(SMALLEST)


def test_the_format_of_v1alpha1_is_refused_by_name() -> None:
    body = body_of(SMALLEST)
    del body["format_version"]
    for text in (body, {**body, "format_version": 1}):
        with pytest.raises(ReleaseMismatch, match="newer than the operator: the description has format 1"):
            decode_job(json.dumps(text))


@pytest.mark.parametrize("number", [0, -1, "1", True, None, 1.5])
def test_a_format_is_a_number_from_one(number) -> None:
    with pytest.raises(ReleaseMismatch, match="not one of this release"):
        decode_job(json.dumps({**body_of(SMALLEST), "format_version": number}))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("attempt",), "2"),
        (("attempt",), True),
        (("spec", "parallelism"), 1.5),
        (("spec", "sink"), []),
        (("spec", "sink", "properties"), {"a": 1}),
        (("spec", "source", "topics"), "in"),
        (("spec", "source", "topics"), [1]),
        (("spec", "source", "partitions"), [["in"]]),
        (("spec", "source", "partitions"), [{"topic": "in", "partition": 0}]),
        (("spec", "sink", "topic"), None),
        (("spec", "source", "schema_registry"), {}),
    ],
)
def test_a_value_of_another_type_is_refused(path, value) -> None:
    body = body_of(SMALLEST)
    place = body
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(ReleaseMismatch, match="not one of this release"):
        decode_job(json.dumps(body))


def test_a_description_says_where_something_is_missing() -> None:
    body = body_of(SMALLEST)
    del body["spec"]["sink"]["topic"]
    with pytest.raises(ReleaseMismatch, match=r"spec\.sink\.topic is missing"):
        decode_job(json.dumps(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterSink(Sink):
    """As a later release may have it."""

    lost_transactions: str = "Fail"


def test_a_later_releases_field_is_written_only_where_it_is_used() -> None:
    sink = LaterSink(topic="t", transactional_id_prefix="p")
    body = encode_part(sink)
    assert decode_part(Sink, body, "sink") == Sink(topic="t", transactional_id_prefix="p")
    used = encode_part(replace(sink, lost_transactions="Continue"))
    with pytest.raises(UnknownPart, match="sink has unknown fields: lost_transactions"):
        decode_part(Sink, used, "sink")
    assert decode_part(LaterSink, used, "sink") == replace(sink, lost_transactions="Continue")


def test_what_a_missing_field_means_is_part_of_the_format() -> None:
    """Changing a default here would change what a job of another release's operator does: give a new field instead."""
    written = json.loads((GOLDEN / "defaults.json").read_text())
    now = defaults()
    assert now.keys() == written.keys(), "run `make generate`"
    for name, found in now.items():
        assert found == written[name], f"a default of {name} is new (run `make generate`), or was changed"
