"""librdkafka's property names for kafka-python."""

from __future__ import annotations

import asyncio

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, wire_config
from sparkapp.clients.transactions.requests import END_TXN_MAX_VERSION
from sparkapp.model.errors import KafkaUnreachable


def test_plain_cluster():
    found = wire_config({"bootstrap.servers": "a:1, b:2", "client.id": "driver"})
    assert found["bootstrap_servers"] == ["a:1", "b:2"]
    assert found["client_id"] == "driver"
    assert not any(name.startswith(("sasl", "ssl", "security")) for name in found)


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_sasl(name):
    found = wire_config(
        {
            "bootstrap.servers": "a:1", "security.protocol": "sasl_plaintext", name: "SCRAM-SHA-512",
            "sasl.username": "u", "sasl.password": "p",
        }
    )  # fmt: skip
    assert found["security_protocol"] == "SASL_PLAINTEXT"
    assert found["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("u", "p")


def test_properties_without_a_meaning_here_are_left_out():
    found = wire_config({"bootstrap.servers": "a:1", "group.id": "g", "linger.ms": "5"})
    assert "g" not in found.values()
    assert "5" not in found.values()


def test_P12_the_cap_is_below_the_version_that_bumps_epochs():
    assert END_TXN_MAX_VERSION == 4


@pytest.mark.parametrize("call", ["send", "send_together", "sleep", "gather"])
def test_a_request_of_a_closed_client_is_a_failure_of_the_tree(call):
    """A worker renews its client while a commit is proven in the background."""
    connection = KafkaConnection({"bootstrap.servers": "a:1"})
    soon = Deadline.after(1)
    calls = {
        "send": lambda: connection.send(None, None, soon),
        "send_together": lambda: connection.send_together([None], None, soon),
        "sleep": lambda: connection.sleep(0),
        "gather": lambda: connection.gather(connection.sleep, [0]),
    }
    with pytest.raises(KafkaUnreachable, match="closed"):
        asyncio.run(calls[call]())
