"""The whole driver, with Spark and its Python workers, over mTLS and over SASL_SSL/SCRAM: a kill and a rescale.

Every record is written once, and the job's secrets are in its files of Secrets and in its memory, and nowhere else. The
password and the private key are canaries. After a crash, success and a refused login they are looked for in command
lines, environments, logs, termination messages, the checkpoint's file, Spark's folders and the page of metrics.
"""

from __future__ import annotations

import base64
import re
import signal
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.machine.ports import free_ports
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.protocol import ProtocolStep
from sparkapp.model.report import AttemptOutcome
from tests.support.jobs.local_job import Attempt, LocalJob, produce
from tests.support.kafka import visibility
from tests.support.kafka.tls.broker import PASSWORD, USER, TlsBroker
from tests.support.kafka.topics import create_topics

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]

LogIn = Callable[..., None]
WRONG = "canary-wrong-" + uuid.uuid4().hex
RECORDS = 3500


class NoHost:
    """Every attempt here is a process of its own, which finds its credentials by a variable."""

    def run(self, **_: object) -> Attempt:
        raise AssertionError("a canary needs processes of its own")


def forms(secret: str) -> set[bytes]:
    """A secret as it may appear: in UTF-8, as a JSON text, and in base64, alone or as a login of SASL PLAIN."""
    fragments = {part for part in re.split(r'[^!-~]|["=]', secret) if len(part) > 4}
    encoded = {base64.b64encode(text.encode()) for text in (secret, f"\0{USER}\0{secret}", f"{USER}:{secret}")}
    return {secret.encode(), *(part.encode() for part in fragments), *encoded}


def key_lines(key: Path) -> set[bytes]:
    """The lines of a private key in PEM, without its head and foot."""
    return {line for line in key.read_bytes().splitlines() if len(line) > 30 and b"-----" not in line}


def session_of(job: LocalJob) -> list[int]:
    """Processes of the attempt: the driver, its JVM and the Python workers."""
    leader = job.process.pid  # type: ignore[union-attr]
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(file.read_text().rpartition(") ")[2].split()[3]) == leader:
                found.append(int(file.parent.name))
    return found


def of_processes(job: LocalJob) -> dict[str, bytes]:
    """Command lines and environments of the attempt's processes."""
    found = {}
    for process in session_of(job):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                found[f"{name} of {process}"] = Path(f"/proc/{process}/{name}").read_bytes()
    return found


def of_files(folder: Path) -> dict[str, bytes]:
    """Everything that the job has written: description, checkpoint, termination messages, logs, Spark's folders."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


@pytest.fixture
def job(tls_broker: TlsBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalJob]:
    """A job whose temporary files are below its folder; :func:`log_in` says how its clients log in."""
    name = f"mine.{uuid.uuid4().hex[:8]}"
    create_topics(tls_broker.bootstrap, NewTopic(f"{name}.in", 4, 1), NewTopic(f"{name}.out", 4, 1))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers=tls_broker.bootstrap),
        source=Source(
            topics=(f"{name}.in",), group_id=name, startup=Startup(mode=StartupMode.EARLIEST),
            max_offsets_per_checkpoint=1000,
        ),
        transform=Transform(),
        sink=Sink(topic=f"{name}.out", transactional_id_prefix=name, transaction_timeout_seconds=120),
        parallelism=2, checkpoint_interval_seconds=1, metrics_port=free_ports(1)[0],
    )  # fmt: skip
    made = LocalJob(folder=tmp_path, spec=spec, uid=str(uuid.uuid4()), host=NoHost())
    yield made
    made.kill()


@pytest.fixture
def log_in(job: LocalJob, tls_broker: TlsBroker, monkeypatch: pytest.MonkeyPatch) -> LogIn:
    """``log_in("mtls")`` mounts the Secrets of the job's next attempt, outside of its folder."""

    def mount(authentication: str, password: str = PASSWORD) -> None:
        cluster = tls_broker.cluster(authentication)
        monkeypatch.setenv("KAFKASPARK_CREDENTIALS", str(tls_broker.mounted(cluster, password=password)))
        job.spec = replace(job.spec, kafka=cluster)

    return mount


def assert_no_leak(seen: dict[str, bytes], broker: TlsBroker) -> None:
    canaries = forms(PASSWORD) | forms(WRONG) | key_lines(broker.user.key)
    assert len(canaries) > 10
    leaks = {where for where, content in seen.items() for canary in canaries if canary in content}
    assert not leaks


@pytest.mark.parametrize(("killed", "rescaled"), [("mtls", "scram-sha-512"), ("scram-sha-512", "mtls")])
def test_a_job_that_is_killed_and_rescaled_keeps_its_secrets(
    job: LocalJob, log_in: LogIn, tls_broker: TlsBroker, killed: str, rescaled: str
) -> None:
    """With each authentication a job starts and is killed, and a job recovers and drains."""
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    produce(tls_broker.bootstrap, source, 0, RECORDS - 500)
    log_in(killed)
    job.start(fault=f"{ProtocolStep.BETWEEN_COMMITS}@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    first = job.process
    produce(tls_broker.bootstrap, source, RECORDS - 500, 500)
    log_in(rescaled)
    job.start(parallelism=3, alone=True)
    job.await_records_in(RECORDS)
    seen = of_processes(job)
    with urllib.request.urlopen(f"http://127.0.0.1:{job.spec.metrics_port}/metrics", timeout=30) as answer:
        seen["metrics"] = answer.read()
    assert job.drain() == 0, job.log()

    client = TransactionClient({"bootstrap.servers": tls_broker.bootstrap})
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    client.close()
    assert sorted(visibility.numbers(tls_broker.bootstrap, sink)) == list(range(RECORDS))

    assert any("java" in content.decode(errors="replace") for where, content in seen.items() if "cmdline" in where)
    environments = [content for where, content in seen.items() if "environ of" in where]
    assert any(b"KAFKASPARK_CREDENTIALS=" in content for content in environments), "the search sees environments"
    for attempt in (first, job.process):
        assert attempt is not None
        attempt.kill()  # a JVM that outlives its driver may still remove files
    seen |= of_files(job.folder)
    assert {"log-1", "log-2", "termination-2", "state"} <= {Path(where).name for where in seen}
    assert_no_leak(seen, tls_broker)


def test_a_login_that_is_refused_shows_no_password(job: LocalJob, log_in: LogIn, tls_broker: TlsBroker) -> None:
    log_in("scram-sha-512", password=WRONG)
    job.start(alone=True)
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.outcome, termination.reason) == (AttemptOutcome.FAILED, "AuthenticationFailed")
    job.kill()
    seen = of_files(job.folder)
    assert {"log-1", "termination-1"} <= {Path(where).name for where in seen}
    assert_no_leak(seen, tls_broker)
