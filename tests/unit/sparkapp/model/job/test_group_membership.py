"""``source.groupMembership``: defaults, rules, the trip to the driver, and the client's configuration."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.config import consumer_config, group_member_config
from sparkapp.model.job.codec import decode_job, encode_job
from sparkapp.model.job.group_membership import FIELD_OF_PROPERTY, Assignor, MembershipOptions
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.job.spec_from_resource import spec_from_resource


def parsed(
    membership: dict[str, Any] | None = None, *, delivery_guarantee: str = "AtLeastOnce", claim: str = "", **source: Any
) -> JobSpec:
    body = {
        "kafka": {"bootstrapServers": "b:9092"},
        "source": {"topics": ["in"], **source, **({} if membership is None else {"groupMembership": membership})},
        "sink": {"topic": "out", "deliveryGuarantee": delivery_guarantee},
        "checkpoint": {"stateVolume": {"claimName": claim}} if claim else {},
    }
    return spec_from_resource(body, namespace="shop", name="orders")


def job(spec: JobSpec) -> Job:
    return Job(namespace="shop", name="orders", uid="uid", generation=3, attempt=2, spec=spec)


FULL = {
    "mode": "Subscribe", "assignor": "cooperative-sticky", "groupInstanceId": "orders-1", "sessionTimeoutSeconds": 30,
    "heartbeatIntervalSeconds": 10, "maxPollIntervalSeconds": 60,
}  # fmt: skip


def test_by_default_nobody_joins() -> None:
    options = parsed(delivery_guarantee="ExactlyOnce").source.group_membership
    assert options == MembershipOptions()
    assert not options.subscribes
    assert "group.instance.id" not in consumer_config(job(parsed()), security={})


def test_every_field_reaches_the_driver_and_its_member() -> None:
    made = job(parsed(FULL, discoveryIntervalSeconds=60))
    assert decode_job(encode_job(made)) == made
    options = made.spec.source.group_membership
    assert options.assignor is Assignor.COOPERATIVE_STICKY
    assert options.assignor.cooperative
    assert options.finish_seconds == 38
    config = group_member_config(made, security={})
    assert {name: config[name] for name in (*FIELD_OF_PROPERTY, "topic.metadata.refresh.interval.ms", "group.id")} == {
        "group.instance.id": "orders-1",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": "30000",
        "heartbeat.interval.ms": "10000",
        "max.poll.interval.ms": "60000",
        "topic.metadata.refresh.interval.ms": "60000",
        "group.id": "shop.orders",
    }


def test_without_discovery_the_member_looks_for_partitions_once() -> None:
    made = job(parsed({"mode": "Subscribe"}, discoveryIntervalSeconds=0))
    config = group_member_config(made, security={})
    assert config["topic.metadata.refresh.interval.ms"] == "-1"
    assert "group.instance.id" not in config


def test_a_rack_and_sizes_of_fetches_reach_the_readers() -> None:
    properties = {"client.rack": "eu-west-1a", "fetch.max.bytes": "33554432", "max.partition.fetch.bytes": "4194304"}
    made = job(parsed(properties=properties))
    assert consumer_config(made, security={}).items() >= properties.items()


@pytest.mark.parametrize("name", FIELD_OF_PROPERTY)
def test_a_property_with_a_field_of_its_own_is_refused_by_that_fields_name(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(properties={name: "1"})
    assert f"{name} cannot be set here: use source.groupMembership.{FIELD_OF_PROPERTY[name]}" in caught.value.message


@pytest.mark.parametrize(
    ("membership", "others", "message"),
    [
        (
            {"mode": "Subscribe"},
            {"delivery_guarantee": "ExactlyOnce"},
            "set mode Assign, or sink.deliveryGuarantee AtLeastOnce",
        ),
        ({"mode": "Subscribe"}, {"startup": {"mode": "Earliest"}}, "set source.startup.mode GroupOffsets"),
        ({"mode": "Subscribe"}, {"offsetCommit": "Disabled"}, "set source.offsetCommit OnCheckpoint"),
        ({"mode": "Subscribe"}, {"claim": "state"}, "remove checkpoint.stateVolume"),
        ({"mode": "Subscribe"}, {"stopping": {"mode": "Latest"}}, "set source.stopping.mode Unbounded"),
        ({"mode": "Subscribe"}, {"stopping": {"predicate": "true"}}, "Unbounded without a predicate"),
        (
            {"mode": "Subscribe"},
            {"topics": [], "partitions": [{"topic": "in", "partitions": [0]}]},
            "name source.topics instead",
        ),
        ({"mode": "Subscribe"}, {"onDataLoss": "SkipToAvailable"}, "set source.onDataLoss Fail"),
        ({"mode": "subscribe"}, {}, "one of Assign, Subscribe"),
        ({"mode": "Subscribe", "assignor": "sticky"}, {}, "one of range, roundrobin, cooperative-sticky"),
        ({"mode": "Subscribe", "groupInstanceId": "a b"}, {}, "groupInstanceId: 'a b' must consist of"),
        ({"groupInstanceId": "a"}, {}, "groupInstanceId needs mode Subscribe: Assign joins no group"),
        ({"heartbeatIntervalSeconds": 16}, {}, "lower it, or raise sessionTimeoutSeconds"),
        ({"maxPollIntervalSeconds": 44}, {}, "raise it, or lower sessionTimeoutSeconds"),
        ({"sessionTimeoutSeconds": 0}, {}, "at least 1"),
    ],
)
def test_a_membership_that_cannot_work_says_what_to_type(
    membership: dict[str, Any], others: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(membership, **others)
    assert caught.value.message.startswith("spec.source.groupMembership")
    assert message in f"{caught.value.message}; {caught.value.remedy}"
