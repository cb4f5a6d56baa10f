"""Case S38: Spark's options for what has a field here are refused, each with the field to use."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.spark_options import FIELD_OF_OPTION
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.spec_from_resource import spec_from_resource


def parsed(**source: Any) -> JobSpec:
    resource = {
        "kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["in"], **source},
        "sink": {"topic": "out", "properties": {"linger.ms": "5"}},
    }  # fmt: skip
    return spec_from_resource(resource, namespace="shop", name="orders")


@pytest.mark.parametrize("name", FIELD_OF_OPTION)
def test_S38_an_option_is_refused_with_the_field_to_use(name: str) -> None:
    for written in (name, name.lower(), name.upper()):
        with pytest.raises(ConfigurationError, match="option of Spark's own Kafka source") as caught:
            parsed(properties={written: "x"})
        assert f"use {FIELD_OF_OPTION[name]}" in caught.value.message


def test_S38_none_of_the_three_ways_to_name_a_start_wins_over_another() -> None:
    """Spark prefers startingTimestamp to startingOffsetsByTimestamp to startingOffsets, silently."""
    options = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    for name in options:
        with pytest.raises(ConfigurationError, match=f"{name} is an option"):
            parsed(startup={"mode": "Earliest"}, properties={name: "1"})
    offsets = [{"topic": "in", "partition": 0, "offset": 1}]
    with pytest.raises(ConfigurationError, match="timestampMillis"):
        parsed(startup={"mode": "SpecificOffsets", "timestampMillis": 1, "specificOffsets": offsets})
    with pytest.raises(ConfigurationError, match="specificOffsets"):
        parsed(startup={"mode": "Timestamp", "timestampMillis": 1, "specificOffsets": offsets})


@pytest.mark.parametrize("field", ["startup", "stopping"])
def test_S38_there_are_no_numbers_for_earliest_and_latest(field: str) -> None:
    """Spark's -1 is an error where a batch query begins, its -2 where it ends; both are errors everywhere here."""
    for marker in (-1, -2):
        with pytest.raises(ConfigurationError, match=f"{field}.specificOffsets"):
            parsed(**{
                field: {"mode": "SpecificOffsets",
                        "specificOffsets": [{"topic": "in", "partition": 0, "offset": marker}]}
            })  # fmt: skip


def test_S38_a_property_of_the_client_is_written_without_sparks_prefix() -> None:
    with pytest.raises(ConfigurationError, match=r"leave 'kafka\.' out"):
        parsed(properties={"kafka.fetch.min.bytes": "1"})
    assert parsed(properties={"fetch.min.bytes": "1"}).source.properties == {"fetch.min.bytes": "1"}


@pytest.mark.parametrize(
    "source",
    [
        {"topicPattern": "x.*"},
        {"partitions": [{"topic": "in", "partitions": [0]}]},
        {"topicPattern": "x.*", "partitions": [{"topic": "in", "partitions": [0]}]},
        {"topics": []},
    ],
)
def test_S31_two_subscriptions_or_none_are_refused(source: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"set exactly one of source\.topics, source\.topicPattern and"):
        parsed(**source)
