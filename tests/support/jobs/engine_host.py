"""One JVM for many attempts: runs the driver of one job after the other on a Spark that is already there.

Most of an attempt's first seconds are a JVM that starts and warms up. Tests in which no process dies have the same
driver, engine and Python workers here without it. Several attempts may run at the same time.

A program, too: ``python -m tests.support.jobs.engine_host`` takes orders as lines of JSON and answers each attempt's
end with one.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.checkpoint.store import FileStore
from sparkapp.clients.deadline import Deadline
from sparkapp.model.encoding.json_log import JsonFormatter, log_as_json
from sparkapp.model.job.client.security_properties import credentials_directory
from sparkapp.model.job.codec import decode_job
from sparkapp.model.job.spec import Job
from sparkapp.model.report import AttemptOutcome, encode_termination
from sparkapp.spark.driver import Driver
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.launch.fork_server import ForkServer
from sparkapp.spark.launch.jvm import Jvm
from sparkapp.spark.launch.preload import VARIABLE, preload_workers
from sparkapp.spark.launch.session import create_session
from sparkapp.spark.launch.settings import session_settings, with_class_archive, with_json_log
from tests.support.jobs import faults
from tests.support.jobs.local_job import Attempt, environment

LOG = logging.getLogger(__name__)

CORES = 3
"""Tasks at a time; no job of these tests has a higher parallelism."""
_PRELOADED = "pandas"
"""What workers of a job with a Python function import first; the host has such jobs and others."""
_MODULES = "KAFKASPARK_CODE"
"""The variable of a Python worker that names the folder of the user's modules."""
_LOOK_SECONDS = 0.02
_TASKS_SECONDS = 60.0
"""For the tasks of an attempt that has ended; Spark kills a worker after 2 s."""


@dataclass(eq=False)
class HostedAttempt:
    """An attempt in the host, with a process's questions; SIGTERM drains it and no other signal is taken."""

    host: EngineHost
    process: subprocess.Popen[str]
    number: int
    status: int | None = None

    def poll(self) -> int | None:
        """Where the host was killed, its attempts were."""
        if self.status is None and self.process.poll() is not None:
            self.status = -signal.SIGKILL
        return self.status

    def wait(self, timeout: float) -> int:
        deadline = Deadline.after(timeout)
        while (status := self.poll()) is None:
            if deadline.expired:
                raise subprocess.TimeoutExpired("the attempt in the engine's host", timeout)
            time.sleep(_LOOK_SECONDS)
        return status

    def send_signal(self, number: int) -> None:
        assert number == signal.SIGTERM, "a host is shared: start the attempt alone to kill it"
        self.host.order({"drain": self.number})

    def kill(self) -> None:
        """An orderly end as well: nothing may be left of a job when the next one starts."""
        if self.poll() is None:
            self.send_signal(signal.SIGTERM)
            try:
                self.wait(60)
            except subprocess.TimeoutExpired:
                self.host.close()


class EngineHost:
    """The tests' side: starts the program when it is first needed, and again if it has died.

    :param folder: of its log. :param variables: of the program, in addition to those of a driver on this machine.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._variables = dict(variables or {})
        self._process: subprocess.Popen[str] | None = None
        self._attempts: list[HostedAttempt] = []

    def run(
        self, *, job: Path, state: Path, termination: Path, log: Path, code: Path | None, folder: Path | None
    ) -> Attempt:
        """Begins an attempt. Attempts at the same time have the same code, and each log has the lines of all.

        :param job: file with the job's description; ``state`` and ``termination`` are written as ``sparkapp run``
            writes them, and the driver's log goes to ``log``.
        :param code: modules that the driver and its workers import. Attempts with another folder have workers of
            their own.
        :param folder: of Spark's query log, of a job that keeps state.
        """
        process = self._running()
        attempt = HostedAttempt(self, process, len(self._attempts))
        self._attempts.append(attempt)
        files = {
            "job": job, "state": state, "termination": termination, "log": log, "code": code or "/nowhere",
            "folder": folder or "",
        }  # fmt: skip
        self.order({"number": attempt.number, **{name: str(file) for name, file in files.items()}})
        return attempt

    def arm(self, fault: str) -> None:
        """Has each attempt that begins from now on meet this fault of :mod:`tests.support.jobs.faults`."""
        self._running()
        self.order({"fault": fault})

    def order(self, body: dict[str, object]) -> None:
        """Sends a line; a host that has died takes none, and its attempts have ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(body) + "\n")
            self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Signals the program, its JVM and its workers."""
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def close(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):  # its JVM may outlive it
                self.signal(signal.SIGKILL)
            self._process.wait(20)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            with (self._folder / "host.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.jobs.engine_host"], env={**environment(), **self._variables},
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True,
                )  # fmt: skip
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        return self._process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            self._attempts[answer["number"]].status = int(answer["status"])


# -- the program ------------------------------------------------------------------------------------------------------


class _Host:
    """Reads orders in the main thread; each attempt runs in a thread of its own."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._drivers: dict[int, Driver | None] = {}
        """Of attempts that have not ended; None before there is one."""
        self._draining: set[int] = set()
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if "fault" in order:
                faults.arm(order["fault"])
            elif "drain" in order:
                self._drain(order["drain"])
            else:
                # A driver without a session keeps all modules of its process from starting Spark.
                while self._drivers and self._spark is None:
                    time.sleep(_LOOK_SECONDS)
                os.environ[_MODULES] = order["code"]
                self._drivers[order["number"]] = None
                threading.Thread(target=self._run, args=(order,), daemon=True).start()

    def _drain(self, number: int) -> None:
        with self._lock:
            self._draining.add(number)
            driver = self._drivers.get(number)
        if driver is not None:
            driver.drain()

    def _run(self, order: dict[str, str]) -> None:
        number = int(order["number"])
        with _log_to(Path(order["log"])):
            try:
                status = self._attempt(order, number)
            except Exception:
                LOG.exception("the host could not run the attempt")
                status = 1
        with self._lock:
            del self._drivers[number]
            if not self._drivers:
                _forget_modules_of(order["code"])
            print(json.dumps({"number": number, "status": status}), flush=True)

    def _attempt(self, order: dict[str, str], number: int) -> int:
        job = decode_job(Path(order["job"]).read_text())
        surroundings = DriverEnvironment(
            store=FileStore(Path(order["state"])),
            retained=FolderRetainedStore.next_to(Path(order["state"])),
            write_report=partial(_write, Path(f"{order['termination']}.report")),
            open_session=lambda: self._session(job),
            close_session=self._end,
            folder=Path(order["folder"] or tempfile.mkdtemp(prefix="kafkaspark-")),
            stateful_allowed=bool(order["folder"]),
            credentials=credentials_directory(),
        )
        driver = Driver(job, surroundings)
        with self._lock:
            self._drivers[number] = driver
            if number in self._draining:
                driver.drain()
        termination = driver.run()
        Path(order["termination"]).write_text(encode_termination(termination))
        return 1 if termination.outcome is AttemptOutcome.FAILED else 0

    def _session(self, job: Job) -> SparkSession:
        """A session of the attempt's own, with its settings, on the one Spark context."""
        settings = session_settings(job)
        with self._lock:
            if self._spark is None:
                # The context outlives the first job: its workers need what any job's workers do.
                everything = {"spark.master": f"local[{CORES}]", f"spark.executorEnv.{VARIABLE}": _PRELOADED}
                self._spark = create_session(settings | everything, self._jvm)
        session = self._spark.newSession()
        for name, value in settings.items():
            if name.startswith("spark.sql.") and session.conf.isModifiable(name):
                session.conf.set(name, value)
        give_code(self._spark, settings)
        return session

    def _end(self, session: SparkSession) -> None:
        """Ends the attempt's queries, and waits for the tasks that a failure leaves: some still end a transaction."""
        for query in session.streams.active:
            query.stop()
        scheduler = session.sparkContext._jsc.sc().taskScheduler()
        deadline = Deadline.after(_TASKS_SECONDS)
        # Spark does not say of which query a task is. So next to another attempt nobody waits.
        while len(self._drivers) == 1 and scheduler.rootPool().runningTasks() and not deadline.expired:
            time.sleep(_LOOK_SECONDS)


def give_code(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Has functions of this attempt run in workers that find its code.

    Spark keeps workers by their environment. So an attempt with another folder of code gets new workers.
    """
    context = spark.sparkContext
    code = settings.get(f"spark.executorEnv.{_MODULES}")
    others = {name: value for name, value in context.environment.items() if name != _MODULES}
    # A dictionary of its own: attempts of other threads may send theirs to the JVM.
    context.environment = others if code is None else others | {_MODULES: code}


def _write(file: Path, text: str) -> None:
    file.write_text(text)


@contextmanager
def _log_to(file: Path) -> Iterator[None]:
    handler = logging.FileHandler(file)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def _forget_modules_of(code: str) -> None:
    """The next attempt may bring modules of the same names."""
    sys.path[:] = [each for each in sys.path if each != code]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(code):
            del sys.modules[name]


if __name__ == "__main__":
    log_as_json("INFO")
    for noisy in ("py4j", "kafka"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    forks = ForkServer()
    jvm = Jvm(with_class_archive(with_json_log({})), forks.environment)
    os.environ[VARIABLE] = _PRELOADED
    # Every folder of code has a daemon of its own, which is a fork of this process's modules.
    preload_workers()
    forks.start()
    _Host(jvm).run()
