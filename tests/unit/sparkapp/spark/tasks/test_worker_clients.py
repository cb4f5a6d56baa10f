"""Whose clients a Python worker keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import Job
from sparkapp.spark.tasks import worker_clients
from sparkapp.spark.tasks.worker_clients import consumer_for, know_brokers, opened_producers, producers_for
from tests.support.jobs.plain_job import plain_spec

JOB = Job(
    namespace="ns", name="job", uid="uid", generation=1, attempt=1,
    spec=plain_spec(kafka=KafkaCluster(bootstrap_servers="a:1")),
)  # fmt: skip


class Client:
    """Of any kind."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.closed = False
        self.asked: list[str] = []

    def learn(self, topics: Iterable[str]) -> None:
        self.asked += topics

    def describe(self, ids: Iterable[str], **_: object) -> dict[str, object]:
        self.asked += ids
        return {}

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for clients in ("_consumers", "_pools", "_coordinators", "_topics"):
        monkeypatch.setattr(worker_clients, clients, {})
    for kind in ("open_consumer", "ProducerPool", "TransactionClient"):
        monkeypatch.setattr(worker_clients, kind, Client)


def test_clients_live_from_task_to_task() -> None:
    assert consumer_for(JOB) is consumer_for(JOB)
    assert producers_for(JOB) is producers_for(JOB) is opened_producers(JOB)


def test_another_job_finds_the_clients_of_the_previous_job_closed() -> None:
    opened: list[Any] = [consumer_for(JOB), producers_for(JOB), *worker_clients._coordinators.values()]
    other = replace(JOB, attempt=2)
    kept = consumer_for(other)
    assert [client.closed for client in opened] == [True, True, True]
    assert opened_producers(JOB) is None
    assert consumer_for(other) is kept


def test_a_worker_without_work_asks_for_topics_and_a_coordinator() -> None:
    know_brokers(JOB)
    consumer: Any = consumer_for(JOB)
    (coordinators,) = worker_clients._coordinators.values()
    client: Any = coordinators
    assert (consumer.asked, client.asked) == (["in"], ["p-offsets"])


def test_without_transactions_it_asks_no_coordinator() -> None:
    sink = replace(JOB.spec.sink, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    know_brokers(replace(JOB, spec=replace(JOB.spec, sink=sink)))
    assert worker_clients._coordinators == {}


def test_what_fails_is_left_to_the_first_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise ConfigurationError("no such property")

    monkeypatch.setattr(worker_clients, "open_consumer", refused)
    know_brokers(JOB)
    with pytest.raises(ConfigurationError):
        consumer_for(JOB)
