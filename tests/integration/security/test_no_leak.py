"""The secrets of a job as real processes are in its files of Secrets and in its memory, and nowhere else.

The password and the private key are canaries. After success, a refused login and a crash they are looked for in command
lines, environments, logs, termination messages, the checkpoint's file, Spark's folders and the page of metrics.
"""

from __future__ import annotations

import base64
import re
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.machine.ports import free_ports
from sparkapp.model.job.spec import JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.report import AttemptOutcome
from tests.support.jobs.local_job import LocalJob, produce
from tests.support.kafka.tls.broker import PASSWORD, USER, TlsBroker
from tests.support.kafka.topics import create_topics

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

WRONG = "canary-wrong-" + uuid.uuid4().hex
RECORDS = 200


class NoHost:
    """Every attempt here is a process of its own."""

    def run(self, **_: object) -> object:
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
    """A job over SASL_SSL with SCRAM; its temporary files are below its folder."""
    name = f"mine.{uuid.uuid4().hex[:8]}"
    create_topics(tls_broker.bootstrap, NewTopic(f"{name}.in", 2, 1), NewTopic(f"{name}.out", 2, 1))
    produce(tls_broker.bootstrap, f"{name}.in", 0, RECORDS)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers=tls_broker.bootstrap),
        source=Source(topics=(f"{name}.in",), group_id=name, startup=Startup(mode=StartupMode.EARLIEST)),
        transform=Transform(),
        sink=Sink(topic=f"{name}.out", transactional_id_prefix=name),
        parallelism=2,
        checkpoint_interval_seconds=1,
        metrics_port=free_ports(1)[0],
    )
    made = LocalJob(folder=tmp_path, spec=spec, uid=str(uuid.uuid4()), host=NoHost())  # type: ignore[arg-type]
    yield made
    made.kill()


def logs_in(
    job: LocalJob, broker: TlsBroker, monkeypatch: pytest.MonkeyPatch, authentication: str, password: str = PASSWORD
) -> None:
    """Mounts the Secrets, outside of the job's folder, and begins the next attempt."""
    cluster = broker.cluster(authentication)
    before = set(broker.folder.glob("mounts-*"))
    broker.security(cluster, password=password)
    (mounts,) = set(broker.folder.glob("mounts-*")) - before
    monkeypatch.setenv("KAFKASPARK_CREDENTIALS", str(mounts))
    job.spec = replace(job.spec, kafka=cluster)
    job.start(alone=True)


def test_canaries_stay_in_their_secrets(
    job: LocalJob, tls_broker: TlsBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, bytes] = {}
    for authentication, crashes in (("scram-sha-512", False), ("mtls", True)):
        logs_in(job, tls_broker, monkeypatch, authentication)
        job.await_records_in(RECORDS)
        seen |= {f"{authentication}: {where}": content for where, content in of_processes(job).items()}
        with urllib.request.urlopen(f"http://127.0.0.1:{job.spec.metrics_port}/metrics", timeout=30) as answer:
            seen[f"{authentication}: metrics"] = answer.read()
        if crashes:
            job.kill()
        else:
            assert job.drain() == 0
    logs_in(job, tls_broker, monkeypatch, "scram-sha-512", password=WRONG)
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.outcome, termination.reason) == (AttemptOutcome.FAILED, "AuthenticationFailed")

    seen |= of_files(tmp_path)
    assert any("java" in content.decode(errors="replace") for where, content in seen.items() if "cmdline" in where)
    assert {"log-1", "log-2", "log-3", "termination-1", "termination-3", "state"} <= {
        Path(where).name for where in seen
    }
    canaries = forms(PASSWORD) | forms(WRONG) | key_lines(tls_broker.user.key)
    assert len(canaries) > 10
    leaks = {where for where, content in seen.items() for canary in canaries if canary in content}
    assert not leaks
    environments = [content for where, content in seen.items() if "environ of" in where]
    assert any(b"KAFKASPARK_CREDENTIALS=" in content for content in environments), "the search sees environments"
