"""``source.topicPattern`` in the driver: RE2, the whole name, and never what the job writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.clients.topics.topic_pattern import TopicPattern, check_no_loop
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.spec_from_resource import spec_from_resource

SPEC = spec_from_resource(
    {
        "kafka": {"bootstrapServers": "k:9092"},
        "source": {"topicPattern": "in-.*"},
        "sink": {"topic": "out"},
        "onRecordError": "DeadLetter",
        "deadLetter": {"topic": "dlq"},
    },
    namespace="shop",
    name="orders",
)


def reading(pattern: str) -> JobSpec:
    return replace(SPEC, source=replace(SPEC.source, topic_pattern=pattern))


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("a.*", ["a", "ab"]),
        ("b|ba", ["ba", "b"]),
        ("a|b", ["a", "b"]),
        ("^a$", ["a"]),
        ("(?i)A", ["a"]),
        (r"[\w-]+", ["a", "ab", "ba", "b"]),
        ("", []),
        (r"\Qa\E", ["a"]),
    ],
)
def test_the_whole_name_matches(pattern: str, topics: list[str]) -> None:
    assert TopicPattern(pattern).matching(["a", "ab", "ba", "b", "a.\n"]) == topics


def test_nothing_backtracks() -> None:
    assert not TopicPattern("(a+)+b").matches("a" * 249)


@pytest.mark.parametrize(
    ("pattern", "cause"),
    [
        ("(", "missing )"),
        ("a)|(b", "unexpected )"),
        ("(?!internal).*", "invalid perl operator: (?!"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("(a{1000}){1000}", "invalid repetition size"),
        (r"a\Q", "missing )"),
    ],
)
def test_what_re2_does_not_know_is_refused_by_name(pattern: str, cause: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        TopicPattern(pattern)
    assert caught.value.reason == "InvalidSpec"
    assert f"spec.source.topicPattern {pattern!r} is not a regular expression of RE2: {cause}" in caught.value.message


@pytest.mark.parametrize(
    ("pattern", "field"), [("o.*", "spec.sink.topic: 'out'"), ("d.*", "spec.deadLetter.topic: 'dlq'")]
)
def test_a_job_does_not_read_what_it_writes(pattern: str, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_no_loop(reading(pattern))
    assert caught.value.message == f"{field} matches source.topicPattern: the job would read its own output forever"


def test_a_part_of_a_name_is_no_loop() -> None:
    check_no_loop(reading("o|d|in-.*"))
    check_no_loop(replace(SPEC, source=replace(SPEC.source, topic_pattern="", topics=("in",))))
