"""What a job's producers are configured with."""

from __future__ import annotations

import pytest

from sparkapp.model.job import Job
from sparkapp.model.job_resource import spec_from_resource
from sparkapp.model.semantic import Semantic
from sparkapp.sink.writer import producer_config

SHARED = {"bootstrap.servers": "b:9092", "client.id": "ns.job-sink", "sasl.password": "secret"}


def config(semantic, **properties):
    spec = spec_from_resource(
        {
            "kafka": {"bootstrapServers": "b:9092"},
            "source": {"topics": ["in"]},
            "sink": {
                "topic": "out",
                "semantic": semantic,
                "transactionTimeoutSeconds": 60,
                "properties": {name.replace("_", "."): value for name, value in properties.items()},
            },
        },
        namespace="ns",
        name="job",
    )
    return producer_config(Job(namespace="ns", name="job", uid="u", generation=1, attempt=1, spec=spec), SHARED)


def test_exactly_once():
    found = config(Semantic.EXACTLY_ONCE)
    assert found["transaction.timeout.ms"] == "60000"
    assert found["enable.idempotence"] == "true"
    assert found["acks"] == "all"
    assert "transactional.id" not in found, "the pool adds it"


def test_at_least_once():
    found = config(Semantic.AT_LEAST_ONCE)
    assert (found["acks"], found["enable.idempotence"]) == ("all", "true")
    assert "transaction.timeout.ms" not in found


def test_none_asks_for_nothing():
    assert config(Semantic.NONE) == SHARED


@pytest.mark.parametrize("semantic", list(Semantic))
def test_the_users_properties_are_kept(semantic):
    found = config(semantic, compression_type="zstd", linger_ms="50")
    assert (found["compression.type"], found["linger.ms"]) == ("zstd", "50")
    assert SHARED.items() <= found.items()
