"""Who the brokers see (case S13), and which group a job has without one of its own (case S29)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.config import cluster_config, consumer_config
from sparkapp.model.job.rules.spec_rules import check_spec
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource

RESOURCE = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}}
JOB = Job(
    namespace="shop", name="orders", uid="uid", generation=1, attempt=1,
    spec=spec_from_resource(RESOURCE, namespace="shop", name="orders"),
)  # fmt: skip


def test_S13_no_property_takes_the_id_away() -> None:
    for properties in ({"client.id": "mine"}, {"group.id": "mine"}):
        spec = replace(JOB.spec, source=replace(JOB.spec.source, properties=properties))
        with pytest.raises(ConfigurationError, match="cannot be set here: use the resource's own field"):
            check_spec(spec)
        found = consumer_config(replace(JOB, spec=spec), security={})
        assert found["client.id"].startswith("shop.orders")
        assert found["group.id"] == "shop.orders"


def test_S29_a_job_without_a_group_has_its_names() -> None:
    config = consumer_config(JOB, security={})
    assert config["group.id"] == "shop.orders"
    assert config["enable.auto.commit"] == "false", "offsets move with checkpoints alone"


def test_the_brokers_are_all_that_a_plain_cluster_needs() -> None:
    assert cluster_config(JOB.spec.kafka, security={}, client_id="shop.orders") == {
        "bootstrap.servers": "b:9092",
        "client.id": "shop.orders",
    }
