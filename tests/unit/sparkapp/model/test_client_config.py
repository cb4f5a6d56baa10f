"""Who the brokers see (case S13), and which group a job has without one of its own (case S29)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import Mock

import pytest

from sparkapp.model.client_config import cluster_config, consumer_config
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job import Job
from sparkapp.model.job_resource import spec_from_resource
from sparkapp.model.job_rules import check_spec
from sparkapp.model.partition import TopicPartition
from sparkapp.native import admin
from sparkapp.source import cluster
from sparkapp.spark import worker_clients

RESOURCE = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}}
JOB = Job(
    namespace="shop", name="orders", uid="uid", generation=1, attempt=1,
    spec=spec_from_resource(RESOURCE, namespace="shop", name="orders"),
)  # fmt: skip


def test_S13_every_client_of_the_driver_begins_its_id_with_the_jobs_name(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Mapping[str, str]] = []
    group = Mock()
    group.committed.return_value = []
    monkeypatch.setattr(admin, "AdminClient", opened.append)
    monkeypatch.setattr(cluster, "Consumer", lambda config: opened.append(config) or group)
    view = cluster.KafkaClusterView(consumer_config(JOB, password=""), read_committed=True)
    view.committed([TopicPartition("in", 0)])
    assert len(opened) == 2
    assert all(config["client.id"].startswith("shop.orders") for config in opened)


def test_S13_so_do_the_clients_of_the_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Mapping[str, str]] = []
    monkeypatch.setattr(worker_clients, "_consumers", {})
    monkeypatch.setattr(worker_clients, "_pools", {})
    monkeypatch.setattr(worker_clients, "_coordinators", {})
    monkeypatch.setattr(worker_clients, "open_consumer", opened.append)
    monkeypatch.setattr(worker_clients, "TransactionClient", opened.append)
    monkeypatch.setattr(worker_clients, "ProducerPool", lambda **parts: opened.append(parts["config"]))
    worker_clients.consumer_for(JOB)
    worker_clients.producers_for(JOB)
    assert len(opened) == 3
    assert all(config["client.id"].startswith("shop.orders") for config in opened)


def test_S13_no_property_takes_the_id_away() -> None:
    for properties in ({"client.id": "mine"}, {"group.id": "mine"}):
        spec = replace(JOB.spec, source=replace(JOB.spec.source, properties=properties))
        with pytest.raises(ConfigurationError, match="cannot be set here: use the resource's own field"):
            check_spec(spec)
        found = consumer_config(replace(JOB, spec=spec), password="")
        assert found["client.id"].startswith("shop.orders")
        assert found["group.id"] == "shop.orders"


def test_S29_a_job_without_a_group_has_its_names() -> None:
    config = consumer_config(JOB, password="")
    assert config["group.id"] == "shop.orders"
    assert config["enable.auto.commit"] == "false", "offsets move with checkpoints alone"


def test_the_brokers_are_all_that_a_plain_cluster_needs() -> None:
    assert cluster_config(JOB.spec.kafka, password="", client_id="shop.orders") == {
        "bootstrap.servers": "b:9092",
        "client.id": "shop.orders",
    }
