"""librdkafka's property names for kafka-python."""

from __future__ import annotations

import pytest

from sparkapp.clients.transactions.connection import wire_config
from sparkapp.clients.transactions.requests import END_TXN_MAX_VERSION


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
