"""What a job's producers are configured with."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.sink.delivery import producer_config

SHARED = {"bootstrap.servers": "b:9092", "client.id": "ns.job-sink", "sasl.password": "secret"}


def config(delivery_guarantee, *, transaction=60, never=False, **properties):
    spec = spec_from_resource(
        {
            "checkpoint": {"intervalSeconds": 1},
            "kafka": {"bootstrapServers": "b:9092"},
            "source": {"topics": ["in"]},
            "sink": {
                "topic": "out",
                "deliveryGuarantee": delivery_guarantee,
                "transactions": {"timeoutSeconds": 0 if never else transaction},
                "properties": {name.replace("_", "."): value for name, value in properties.items()},
            },
        },
        namespace="ns",
        name="job",
    )
    return producer_config(Job(namespace="ns", name="job", uid="u", generation=1, attempt=1, spec=spec), SHARED)


def test_exactly_once():
    found = config(DeliveryGuarantee.EXACTLY_ONCE)
    assert found["transaction.timeout.ms"] == "60000"
    assert found["enable.idempotence"] == "true"
    assert found["acks"] == "all"
    assert "transactional.id" not in found, "the pool adds it"


@pytest.mark.parametrize(("transaction", "request_of_it"), [(900, "30000"), (30, "30000"), (5, "5000")])
def test_a_request_is_given_up_long_before_its_transaction(transaction, request_of_it):
    assert config(DeliveryGuarantee.EXACTLY_ONCE, transaction=transaction)["socket.timeout.ms"] == request_of_it


def test_the_user_may_say_how_long_a_request_takes():
    assert config(DeliveryGuarantee.EXACTLY_ONCE, socket_timeout_ms="45000")["socket.timeout.ms"] == "45000"


def test_never_is_the_largest_time_out():
    found = config(DeliveryGuarantee.EXACTLY_ONCE, never=True)
    assert found["transaction.timeout.ms"] == "2147483647"
    assert "socket.timeout.ms" not in found
    assert found["message.timeout.ms"] == "120000"
    Producer({**found, "bootstrap.servers": "127.0.0.1:1", "transactional.id": "x", "sasl.password": ""})


def test_never_leaves_the_users_limit_of_a_message():
    assert config(DeliveryGuarantee.EXACTLY_ONCE, never=True, message_timeout_ms="5000")["message.timeout.ms"] == "5000"
    assert "message.timeout.ms" not in config(DeliveryGuarantee.EXACTLY_ONCE, never=True, delivery_timeout_ms="5000")


def test_never_refuses_what_librdkafka_would_refuse_later():
    with pytest.raises(
        ConfigurationError, match=r"socket\.timeout\.ms in sink\.properties cannot be set with sink\.transactions"
    ):
        config(DeliveryGuarantee.EXACTLY_ONCE, never=True, socket_timeout_ms="30000")


def test_at_least_once():
    found = config(DeliveryGuarantee.AT_LEAST_ONCE)
    assert (found["acks"], found["enable.idempotence"]) == ("all", "true")
    assert "transaction.timeout.ms" not in found


@pytest.mark.parametrize("delivery_guarantee", list(DeliveryGuarantee))
def test_the_users_properties_are_kept(delivery_guarantee):
    found = config(delivery_guarantee, compression_type="zstd", linger_ms="50")
    assert (found["compression.type"], found["linger.ms"]) == ("zstd", "50")
    assert SHARED.items() <= found.items()


def test_a_limit_of_the_user_counts():
    found = config(DeliveryGuarantee.EXACTLY_ONCE, message_max_bytes="7000", batch_size="5000")
    assert (found["message.max.bytes"], found["batch.size"]) == ("7000", "5000")
