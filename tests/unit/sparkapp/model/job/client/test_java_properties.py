"""Names of Java's clients: each is refused with its counterpart, and librdkafka really has the counterpart only."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client import java_properties
from sparkapp.model.job.client.java_properties import LIBRDKAFKA_NAME
from sparkapp.model.job.client.properties import refused_property
from sparkapp.model.job.spec_from_resource import spec_from_resource

REFUSED = {*LIBRDKAFKA_NAME, *java_properties._RESOURCE_FIELD, *java_properties._WITHOUT_COUNTERPART}


def known(name: str) -> bool:
    for kind in (Producer, Consumer):
        try:
            kind({name: "", "group.id": "g"})
        except KafkaException as error:
            if "No such configuration property" in error.args[0].str() or "not supported" in error.args[0].str():
                return False
    return True


@pytest.mark.parametrize("side", ["source", "sink"])
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("max.poll.records", "set source.limits.maxOffsetsPerCheckpoint"),
        ("fetch.max.wait.ms", "write fetch.wait.max.ms"),
        ("key.serializer", "cast the column key in the transform"),
        ("metric.reporters", "remove it"),
    ],
)
def test_D15_a_name_of_javas_clients_is_refused_with_what_to_write(side: str, name: str, instead: str) -> None:
    resource = {
        "kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}
    }  # fmt: skip
    resource[side] |= {"properties": {name: "1"}}  # type: ignore[operator]
    with pytest.raises(ConfigurationError) as caught:
        spec_from_resource(resource, namespace="shop", name="orders")
    said = f"spec.{side}.properties: {name} is a property of Java's client, not of librdkafka: {instead}"
    assert caught.value.message == said
    assert caught.value.fatal


@pytest.mark.parametrize("name", sorted(REFUSED - {"max.poll.records"}))
def test_D15_librdkafka_does_not_know_the_name(name: str) -> None:
    assert not known(name)


@pytest.mark.parametrize("name", sorted(set(LIBRDKAFKA_NAME.values())))
def test_D15_librdkafka_knows_the_counterpart_and_the_spec_takes_it(name: str) -> None:
    assert known(name)
    assert refused_property(name) is None
