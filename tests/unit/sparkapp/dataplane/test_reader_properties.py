"""Client properties of ``source.properties`` reach real clients, which accept them; a broker is not needed for that."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from sparkapp.dataplane.settings import consumer_settings
from sparkapp.model.job.client.config import consumer_config, group_member_config
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource

PROPERTIES = {"client.rack": "eu-west-1a", "fetch.max.bytes": "33554432", "max.partition.fetch.bytes": "4194304"}


@pytest.fixture
def job() -> Job:
    body = {
        "kafka": {"bootstrapServers": "127.0.0.1:1"},
        "source": {"topics": ["in"], "properties": PROPERTIES, "groupMembership": {"mode": "Subscribe"}},
        "sink": {"topic": "out", "deliveryGuarantee": "AtLeastOnce"},
    }
    spec = spec_from_resource(body, namespace="shop", name="orders")
    return Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=1, spec=spec)


def test_a_rack_and_sizes_of_fetches_are_accepted_by_readers_and_member(job: Job) -> None:
    for config in (consumer_settings(consumer_config(job, security={})), group_member_config(job, security={})):
        assert config["client.rack"] == "eu-west-1a"
        Consumer({**config, "error_cb": lambda _: None, "log_level": 0}).close()
