"""Passwords, authorities and certificates change while records flow: one drain for each change of the mounted files.

Every attempt is the whole driver on a Spark that is already there, with Python workers of its own. The test plays
Kubernetes, which starts the next attempt.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.client.security_properties import DIRECTORY_VARIABLE
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import START_SECONDS, Host, LocalJob
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.kafka.tls.broker import PASSWORD, USER, TlsBroker
from tests.support.kafka.tls.certificates import CertificateAuthority
from tests.support.kafka.topics import create_topics

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]


class RotatedJob:
    """A job, its mounted Secrets, and records that keep coming."""

    def __init__(self, broker: TlsBroker, cluster: KafkaCluster, folder: Path, mounts: Path, host: Host) -> None:
        name = f"mine.{uuid.uuid4().hex[:8]}"
        create_topics(broker.bootstrap, NewTopic(f"{name}.in", 4, 1), NewTopic(f"{name}.out", 4, 1))
        self.broker = broker
        self.cluster = cluster
        self.mounts = broker.mounted(cluster, root=mounts)
        spec = JobSpec(
            kafka=cluster,
            source=Source(topics=(f"{name}.in",), group_id=name, startup=Startup(mode=StartupMode.EARLIEST)),
            transform=Transform(),
            sink=Sink(topic=f"{name}.out", transactional_id_prefix=name, transaction_timeout_seconds=120),
            parallelism=2, checkpoint_interval_seconds=1,
        )  # fmt: skip
        self.local = LocalJob(folder=folder, spec=spec, uid=name, host=host)
        self.produced = 0
        self._stop = threading.Event()
        self._load = threading.Thread(target=self._produce, daemon=True)
        self._load.start()

    def _produce(self) -> None:
        producer = idempotent_producer(self.broker.bootstrap)
        while not self._stop.wait(0.2):
            for number in range(self.produced, self.produced + 20):
                producer.produce(self.local.spec.source.topics[0], str(number), str(number))
            assert producer.flush(30) == 0
            self.produced += 20

    def start(self) -> None:
        """The next attempt, until it has completed checkpoints."""
        # Workers are kept for the attempts of a folder of code.
        self.local.code = self.local.folder / f"code-{self.local.attempt + 1}"
        self.local.code.mkdir()
        before = self.local.document()
        self.local.start()
        self.local.await_checkpoint((before.checkpoint_id if before else 0) + 2)

    def runs_on(self) -> None:
        """The attempt completes further checkpoints."""
        document = self.local.document()
        assert document is not None
        self.local.await_checkpoint(document.checkpoint_id + 3)

    def mount(self, *, authority: Path | None = None, **secrets: object) -> None:
        """The kubelet writes the Secrets' new content."""
        self.broker.mounted(self.cluster, authority=authority, root=self.mounts, **secrets)  # type: ignore[arg-type]

    def await_log(self, text: str) -> None:
        deadline = Deadline.after(START_SECONDS)
        while text not in self.local.log(lines=10_000):
            assert not deadline.expired, self.local.log()
            assert self.local.process is not None
            assert self.local.process.poll() is None, self.local.log()
            self._stop.wait(0.2)

    def await_rotation(self) -> None:
        """The attempt drains by itself, and says why."""
        assert self.local.await_end() == 0, self.local.log()
        termination = self.local.termination()
        assert termination is not None
        assert (termination.outcome, termination.reason) == ("Drained", "CredentialsChanged"), self.local.log()
        document = self.local.document()
        assert document is not None
        assert document.drained

    def finish(self) -> None:
        """The load ends, the job reads the rest and drains: every record is there once, nothing is open."""
        self._stop.set()
        self._load.join(60)
        self.local.await_records_in(self.produced)
        assert self.local.drain() == 0, self.local.log()
        bootstrap, spec = self.broker.bootstrap, self.local.spec
        client = TransactionClient({"bootstrap.servers": bootstrap})
        assert visibility.open_transactions(client, spec.sink.transactional_id_prefix) == []
        client.close()
        assert sorted(visibility.numbers(bootstrap, spec.sink.topic)) == list(range(self.produced))

    def close(self) -> None:
        self._stop.set()
        self.local.kill()


Jobs = Callable[..., RotatedJob]


@pytest.fixture(scope="module")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the mounted Secrets."""
    return tmp_path_factory.mktemp("mounts")


@pytest.fixture(scope="module")
def host(mounts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHost]:
    """A Spark whose drivers and workers find their credentials there, by a variable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DIRECTORY_VARIABLE, str(mounts))
        made = EngineHost(tmp_path_factory.mktemp("host"))
        yield made
        made.close()


@pytest.fixture
def jobs(tls_broker: TlsBroker, tmp_path: Path, mounts: Path, host: EngineHost) -> Iterator[Jobs]:
    """``jobs("mtls")``: a job with that authentication."""
    made: list[RotatedJob] = []

    def make(authentication: str, **options: str) -> RotatedJob:
        cluster = tls_broker.cluster(authentication, **options)  # type: ignore[arg-type]
        made.append(RotatedJob(tls_broker, cluster, tmp_path, mounts, host))
        return made[-1]

    yield make
    for each in made:
        each.close()
    tls_broker.set_password(PASSWORD)
    tls_broker.use_on_mtls()


def test_a_password_is_rotated(jobs: Jobs, tls_broker: TlsBroker) -> None:
    job = jobs("scram-sha-512")
    job.start()
    # The Secret first: the brokers do not know the new password, and the job continues with the old one.
    job.mount(password="second")
    job.await_log("cannot be used")
    job.runs_on()
    tls_broker.set_password("second")
    job.await_rotation()
    job.start()
    # The brokers first: the next transaction's producer cannot connect, for no pod has the new password.
    tls_broker.set_password("third")
    assert job.local.await_end() == 1, job.local.log()
    termination = job.local.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("AuthenticationFailed", False), job.local.log()
    job.mount(password="third")
    job.start()
    job.finish()
    assert job.local.attempt == 3


def test_authority_certificate_and_key_are_rotated(jobs: Jobs, tls_broker: TlsBroker, tmp_path: Path) -> None:
    old, new = tls_broker.authority, CertificateAuthority(tmp_path / "pki", name="the next authority")
    both = tmp_path / "both.crt"
    both.write_bytes(old.certificate.read_bytes() + new.certificate.read_bytes())
    job = jobs("mtls")
    job.start()
    job.mount(authority=both)
    job.await_rotation()
    job.start()
    tls_broker.use_on_mtls(new.issue("broker", "127.0.0.1", "localhost"), old, new)
    job.runs_on()
    job.mount(authority=new.certificate, user=new.issue(USER))
    job.await_rotation()
    tls_broker.use_on_mtls(new.issue("broker", "127.0.0.1", "localhost"), new)
    job.start()
    job.finish()
    assert job.local.attempt == 3
