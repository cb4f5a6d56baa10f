"""The whole driver, with Spark and its Python workers, over mTLS and over SASL_SSL/SCRAM: a kill and a rescale."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.spec import JobSpec, Sink, Source, Transform
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.protocol import ProtocolStep
from tests.support.jobs.local_job import Host, LocalJob, produce
from tests.support.kafka import visibility
from tests.support.kafka.tls.broker import TlsBroker
from tests.support.kafka.topics import create_topics

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]


class NoHost(Host):
    """Every attempt here is a process of its own, which finds its credentials by a variable."""


@pytest.fixture(params=["mtls", "scram-sha-512"])
def job(
    request: pytest.FixtureRequest, tls_broker: TlsBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalJob]:
    name = f"mine.{uuid.uuid4().hex[:8]}"
    create_topics(tls_broker.bootstrap, NewTopic(f"{name}.in", 4, 1), NewTopic(f"{name}.out", 4, 1))
    cluster = tls_broker.cluster(request.param)
    monkeypatch.setenv("KAFKASPARK_CREDENTIALS", str(tls_broker.mounted(cluster)))
    spec = JobSpec(
        kafka=cluster,
        source=Source(
            topics=(f"{name}.in",), group_id=name, startup=Startup(mode=StartupMode.EARLIEST),
            max_offsets_per_checkpoint=1000,
        ),
        transform=Transform(),
        sink=Sink(topic=f"{name}.out", transactional_id_prefix=name, transaction_timeout_seconds=120),
        parallelism=2, checkpoint_interval_seconds=1,
    )  # fmt: skip
    made = LocalJob(folder=tmp_path, spec=spec, uid=name, host=NoHost())
    yield made
    made.kill()


def test_a_job_that_is_killed_and_rescaled_writes_every_record_once(job: LocalJob, tls_broker: TlsBroker) -> None:
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    produce(tls_broker.bootstrap, source, 0, 3000)
    job.start(fault=f"{ProtocolStep.BETWEEN_COMMITS}@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    produce(tls_broker.bootstrap, source, 3000, 500)
    job.start(parallelism=3, alone=True)
    job.await_records_in(3500)
    assert job.drain() == 0, job.log()
    client = TransactionClient({"bootstrap.servers": tls_broker.bootstrap})
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    client.close()
    assert sorted(visibility.numbers(tls_broker.bootstrap, sink)) == list(range(3500))
