"""A job as real processes on this machine: `sparkapp run` with a checkpoint file, its own JVM and Python workers.

The same program as in a pod, so a SIGKILL here is the SIGKILL there; only Kubernetes is missing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import decode_retained
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.report import Report, Termination, decode_report, decode_termination
from sparkapp.spark.launch.settings import CLASSES_VARIABLE as CLASSES
from tests.support.jobs.spark_home import unzipped_spark_home
from tests.support.kafka.idempotent_producer import idempotent_producer

ROOT = Path(__file__).resolve().parents[3]
QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For JVMs that live for half a minute: a compiler that optimises less takes half the CPU of a start."""
START_SECONDS = 600.0
"""A JVM, its workers and a first micro-batch take 15 s alone; a busy machine takes many times that."""


def environment() -> dict[str, str]:
    """This process's, with what a driver on this machine needs."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(unzipped_spark_home()),
        CLASSES: str(Path(sys.prefix) / "kafkaspark-classes"),  # where `make test` has made it
        **QUICK_JVM,
    }


class Attempt(Protocol):
    """A driver's run: a process of its own, or a call in the engine's host."""

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def kill(self) -> None: ...


class Host(Protocol):
    """Runs attempts that end in order, one after the other, on a Spark that is already there."""

    def run(
        self, *, job: Path, state: Path, termination: Path, log: Path, code: Path | None, folder: Path | None
    ) -> Attempt: ...


@dataclass
class LocalJob:
    """One job over several attempts; each :meth:`start` begins the next.

    :param folder: of the job's description, checkpoint file and logs.
    :param host: where attempts run that nothing kills.
    :param code: where user modules are.
    :param stateful: keep Spark's query folder from attempt to attempt.
    :param snapshots: checkpoints of the snapshots that attempts may begin at, by name.
    """

    folder: Path
    spec: JobSpec
    uid: str
    host: Host
    code: Path | None = None
    stateful: bool = False
    snapshots: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0
    process: Attempt | None = None

    @property
    def state_file(self) -> Path:
        return self.folder / "state"

    def start(self, *, parallelism: int | None = None, fault: str = "", alone: bool = False) -> None:
        """Begins the next attempt, after the previous attempt's processes have ended.

        :param alone: in a process of its own, which may be killed; so is every attempt with a fault.
        """
        assert self.process is None or self.process.poll() is not None, "the previous attempt still runs"
        self.attempt += 1
        if parallelism is not None:
            self.spec = replace(self.spec, parallelism=parallelism)
        job = Job(
            namespace="test", name=self.uid, uid=self.uid, generation=1, attempt=self.attempt, spec=self.spec,
            snapshots=self.snapshots,
        )  # fmt: skip
        description = self.folder / f"job-{self.attempt}.json"
        description.write_text(encode_job(job))
        termination, log = self.folder / f"termination-{self.attempt}", self.folder / f"log-{self.attempt}"
        query = self.folder / "query" if self.stateful else None
        if not (alone or fault):
            self.process = self.host.run(
                job=description, state=self.state_file, termination=termination, log=log, code=self.code, folder=query
            )
            return
        module = "tests.support.jobs.faults" if fault else "sparkapp"
        command = [sys.executable, "-m", module, "run", "--job", str(description), "--state", str(self.state_file)]
        if query is not None:
            command += ["--folder", str(query)]
        variables = {
            **environment(),
            **({"FAULT": fault} if fault else {}),
            "KAFKASPARK_TERMINATION_LOG": str(termination),
            **({"KAFKASPARK_CODE": str(self.code)} if self.code else {}),
        }
        with log.open("wb") as output:
            self.process = _Session(
                command, env=variables, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def document(self) -> CheckpointDocument | None:
        if not self.state_file.exists():
            return None
        return decode(self.state_file.read_text().partition("\n")[2], job_uid=self.uid)

    def retained(self) -> list[RetainedCheckpoint]:
        """The retained checkpoints, the oldest first."""
        texts = FolderRetainedStore.next_to(self.state_file).read()
        found = [decode_retained(text, key=key, job_uid=self.uid) for key, text in texts.items()]
        return sorted(found, key=lambda each: each.checkpoint_id)

    def await_records_in(self, count: int) -> CheckpointDocument:
        """Waits until completed checkpoints of this attempt cover this many source records."""
        return self.await_document(lambda each: each.counters.records_in >= count, f"{count} records in")

    def await_checkpoint(self, number: int) -> CheckpointDocument:
        """Waits until this attempt has completed the checkpoint."""
        return self.await_document(lambda each: each.checkpoint_id >= number, f"checkpoint {number}")

    def await_document(self, fits: Callable[[CheckpointDocument], bool], what: str) -> CheckpointDocument:
        """Waits for a document of this attempt, as :meth:`await_fact` does.

        :param what: the document has when it fits, for the message of a failure.
        """
        found: list[CheckpointDocument] = []

        def is_there() -> bool:
            document = self.document()
            if document and document.attempt == self.attempt and fits(document):
                found.append(document)
            return bool(found)

        self.await_fact(is_there, lambda: f"no {what}: {self.document()}")
        return found[0]

    def await_fact(self, there: Callable[[], bool], missing: Callable[[], object], *, may_end: bool = False) -> None:
        """Waits for something that the job brings about, as long as it completes checkpoints: however slow it is.

        :param missing: for the message of a failure.
        :param may_end: whether the attempt may end meanwhile.
        """
        known, end = self.newest(), time.monotonic() + START_SECONDS
        assert self.process is not None
        while True:
            has_ended = self.process.poll() is not None
            if there():
                return
            assert may_end or not has_ended, f"{missing()}: it ended: {self.termination()}\n{self.log()}"
            assert time.monotonic() < end, f"{missing()}\n{self.log()}"
            if (newest := self.newest()) != known:
                known, end = newest, time.monotonic() + START_SECONDS
            time.sleep(0.1)

    def newest(self) -> int:
        """The checkpoint of the document; 0 before the first."""
        document = self.document()
        return 0 if document is None else document.checkpoint_id

    def await_end(self, seconds: float = START_SECONDS) -> int:
        """Waits for the process's own end and returns its status (negative: killed by that signal)."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"attempt {self.attempt} did not end in {seconds} s\n{self.log()}") from None

    def drain(self) -> int:
        """SIGTERM, as Kubernetes stops a pod."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.await_end()

    def left(self) -> LocalJob:
        """The present attempt, for those who await its end later; the next attempt may begin before."""
        attempt, self.process = replace(self), None
        return attempt

    def termination(self) -> Termination | None:
        file = self.folder / f"termination-{self.attempt}"
        return decode_termination(file.read_text()) if file.exists() else None

    def report(self) -> Report | None:
        """The last report of an attempt in the host."""
        file = self.folder / f"termination-{self.attempt}.report"
        return decode_report(file.read_text(), job_uid=self.uid) if file.exists() else None

    def log(self, lines: int = 40) -> str:
        file = self.folder / f"log-{self.attempt}"
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.exists() else ""

    def jvm(self) -> int:
        """Process id of the JVM of an attempt that runs alone."""
        assert isinstance(self.process, _Session)
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, fields = file.read_text().split(") ", 1)
                if name.endswith("(java") and int(fields.split()[3]) == self.process.pid:
                    return int(name.split()[0])
        msg = f"attempt {self.attempt} has no JVM"
        raise AssertionError(msg)

    def workers(self) -> set[int]:
        """Python workers of an attempt that runs alone on local Spark.

        They are forks of Spark's daemon, which is a fork of the fork server, which is a fork of the driver.
        """
        parents: dict[int, int] = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, fields = file.read_text().rpartition(") ")
                state, parent, _, session, *_ = fields.split()
                if int(session) == self._session and state != "Z" and not name.endswith("(java"):
                    parents[int(file.parent.name)] = int(parent)
        servers = {pid for pid, parent in parents.items() if parent == self._session}
        daemons = {pid for pid, parent in parents.items() if parent in servers}
        return {pid for pid, parent in parents.items() if parent in daemons}

    def executors(self) -> set[int]:
        """JVMs of the executors of an attempt that runs alone on a local cluster."""
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self._session and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                    found.add(int(folder.name))
        return found

    @property
    def _session(self) -> int:
        assert isinstance(self.process, _Session)
        return self.process.pid

    def signal_session(self, number: signal.Signals) -> None:
        """Signals an attempt that runs alone: driver, JVM and workers."""
        os.killpg(self._session, number)

    def kill(self) -> None:
        """Ends whatever is left: driver, JVM and workers."""
        if self.process is not None:
            self.process.kill()


class _Session(subprocess.Popen[bytes]):
    """A process and all that it started."""

    def kill(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.wait(20)


def signal_all(processes: Iterable[int], number: signal.Signals) -> None:
    """Signals those that still run: Spark ends its workers when it likes."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def settings_of_a_cluster(folder: Path, *, master: str, **settings: str) -> dict[str, str]:
    """Writes the file that makes a session a cluster's, for jobs of this folder; returns their further environment.

    :param master: of Spark. ``local[2,4]`` tries tasks four times; ``local-cluster[2,1,1024]`` has two executors.
    """
    conf = {"spark.master": master, "spark.ui.enabled": "false", **settings}
    (folder / names.SPARK_CONF_KEY).write_text(json.dumps(conf))
    return {
        "KAFKASPARK_POD_IP": "127.0.0.1", "KUBERNETES_SERVICE_HOST": "nowhere", "KUBERNETES_SERVICE_PORT": "1",
    }  # fmt: skip


def produce(bootstrap: str, topic: str, first: int, count: int, **message: Any) -> None:
    """Writes the numbers ``first … first+count-1`` as text, keyed so that they spread over the partitions."""
    producer = idempotent_producer(bootstrap)
    for number in range(first, first + count):
        body = {"key": str(number % 97), "value": str(number), **message}
        producer.produce(topic, **body)
        producer.poll(0)
    assert producer.flush(30) == 0


def produce_json(bootstrap: str, topic: str, rows: list[dict[str, Any]]) -> None:
    producer = idempotent_producer(bootstrap)
    for row in rows:
        producer.produce(topic, key=str(row.get("id", "")), value=json.dumps(row))
    assert producer.flush(30) == 0
