"""One JVM for many attempts: runs the driver of one job after the other on a Spark that is already there.

Most of an attempt's first seconds are a JVM that starts and warms up. Tests in which no process dies have the same
driver, engine and Python workers here without it. A program, too: ``python -m tests.support.jobs.engine_host`` takes
orders as lines of JSON and answers each attempt's end with one.
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
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Queue

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
from tests.support.jobs.local_job import Attempt, environment

CORES = 3
"""Tasks at a time; no job of these tests has a higher parallelism."""
_PRELOADED = "pandas"
"""What workers of a job with a Python function import first; the host has such jobs and others."""
_MODULES = "KAFKASPARK_CODE"
"""The variable of a Python worker that names the folder of the user's modules."""
_TASKS_SECONDS = 60.0
"""For the tasks of an attempt that has ended; Spark kills a worker after 2 s."""


@dataclass
class HostedAttempt:
    """An attempt in the host, with a process's questions; SIGTERM drains it and no other signal is taken."""

    host: EngineHost
    status: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> int | None:
        return self.status if self.ended.is_set() else None

    def wait(self, timeout: float) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired("the attempt in the engine's host", timeout)
        assert self.status is not None
        return self.status

    def send_signal(self, number: int) -> None:
        assert number == signal.SIGTERM, "a host is shared: start the attempt alone to kill it"
        self.host.order({"drain": True})

    def kill(self) -> None:
        """An orderly end as well: nothing may be left of a job when the next one starts."""
        if self.poll() is None:
            self.send_signal(signal.SIGTERM)
            try:
                self.wait(60)
            except subprocess.TimeoutExpired:
                self.host.close()


class EngineHost:
    """The tests' side: starts the program when it is first needed, and again if it has died."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._attempt: HostedAttempt | None = None

    def run(
        self, *, job: Path, state: Path, termination: Path, log: Path, code: Path | None, folder: Path | None
    ) -> Attempt:
        """Begins an attempt; one at a time.

        :param job: file with the job's description; ``state`` and ``termination`` are written as ``sparkapp run``
            writes them, and the driver's log goes to ``log``.
        :param code: modules that the driver and its workers import. Attempts with another folder have workers of
            their own.
        :param folder: of Spark's query log, of a job that keeps state.
        """
        assert self._attempt is None or self._attempt.poll() is not None, "the host runs one attempt at a time"
        if self._process is None or self._process.poll() is not None:
            self._start()
        self._attempt = HostedAttempt(self)
        files = {
            "job": job, "state": state, "termination": termination, "log": log, "code": code or "/nowhere",
            "folder": folder or "",
        }  # fmt: skip
        self.order({name: str(file) for name, file in files.items()})
        return self._attempt

    def order(self, body: dict[str, object]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(body) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)

    def _start(self) -> None:
        with (self._folder / "host.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.jobs.engine_host"], env=environment(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True,
            )  # fmt: skip
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._end(int(json.loads(line)["status"]))
        # Died with an attempt under way: as a driver that was killed.
        self._end(-signal.SIGKILL)

    def _end(self, status: int) -> None:
        attempt = self._attempt
        if attempt is not None and not attempt.ended.is_set():
            attempt.status = status
            attempt.ended.set()


# -- the program ------------------------------------------------------------------------------------------------------


class _Host:
    """Attempts run in the main thread one by one; orders are read in another, for a drain comes while one runs."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._orders: Queue[dict[str, str] | None] = Queue()
        self._driver: Driver | None = None
        self._spark: SparkSession | None = None

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        while (order := self._orders.get()) is not None:
            with _log_to(Path(order["log"])), _modules_from(order["code"]):
                status = self._attempt(order)
            self._driver = None
            print(json.dumps({"status": status}), flush=True)

    def _read(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if "drain" not in order:
                self._orders.put(order)
            elif self._driver is not None:
                self._driver.drain()
        self._orders.put(None)

    def _attempt(self, order: dict[str, str]) -> int:
        job = decode_job(Path(order["job"]).read_text())
        surroundings = DriverEnvironment(
            store=FileStore(Path(order["state"])),
            retained=FolderRetainedStore.next_to(Path(order["state"])),
            write_report=partial(_write, Path(f"{order['termination']}.report")),
            open_session=lambda: self._session(job),
            close_session=_end,
            folder=Path(order["folder"] or tempfile.mkdtemp(prefix="kafkaspark-")),
            stateful_allowed=bool(order["folder"]),
            credentials=credentials_directory(),
        )
        self._driver = Driver(job, surroundings)
        termination = self._driver.run()
        Path(order["termination"]).write_text(encode_termination(termination))
        return 1 if termination.outcome is AttemptOutcome.FAILED else 0

    def _session(self, job: Job) -> SparkSession:
        """A session of the attempt's own, with its settings, on the one Spark context."""
        settings = session_settings(job)
        if self._spark is None:
            # The context outlives the first job: its workers need what any job's workers do.
            everything = {"spark.master": f"local[{CORES}]", f"spark.executorEnv.{VARIABLE}": _PRELOADED}
            self._spark = create_session(settings | everything, self._jvm)
        session = self._spark.newSession()
        for name, value in settings.items():
            if name.startswith("spark.sql.") and session.conf.isModifiable(name):
                session.conf.set(name, value)
        _give_code(self._spark, settings)
        return session


def _give_code(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Has functions of this attempt run in workers that find its code.

    Spark keeps workers by their environment. So an attempt with another folder of code gets new workers.
    """
    environment = spark.sparkContext.environment
    environment.pop(_MODULES, None)
    code = settings.get(f"spark.executorEnv.{_MODULES}")
    if code is not None:
        environment[_MODULES] = code


def _end(session: SparkSession) -> None:
    """Ends the attempt's queries, and waits for the tasks that a failure leaves: some still end a transaction."""
    for query in session.streams.active:
        query.stop()
    scheduler = session.sparkContext._jsc.sc().taskScheduler()
    deadline = Deadline.after(_TASKS_SECONDS)
    while scheduler.rootPool().runningTasks() and not deadline.expired:
        time.sleep(0.02)


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


@contextmanager
def _modules_from(code: str) -> Iterator[None]:
    """The next attempt may bring modules of the same names."""
    os.environ["KAFKASPARK_CODE"] = code
    try:
        yield
    finally:
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
