"""The story: a job is killed twice and rescaled twice while data comes in; then every record is counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from clusterjob.environment import ClusterEnvironment
from clusterjob.kafka.reading import read_committed
from clusterjob.kafka.topics import Topics
from clusterjob.kafka.transactions import open_transactions
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import LiveJob
from clusterjob.oracle import Verdict, compare, longest_pause
from clusterjob.watch import PATIENCE
from demo.data import ALL_FLIGHTS, flights
from demo.delays import expected
from demo.loader import PacedLoader
from demo.manifest import code_config_map, flights_job
from localcluster.progress import Progress
from sparkapp.model import names

NAMESPACE = "demo"
PARTITIONS = 4
_AT_A_TIME = 2
"""Checkpoints of an attempt: their subtasks may have written them when an incident comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A fault or a rescale of the running job.

    :param checkpoint: the last completed checkpoint before it.
    :param ready_after: seconds until the job was Ready again, or had all its executors.
    :param checkpoint_after: seconds until a checkpoint was final that began behind it: from then on new output is
        visible.
    :param began: seconds since 1970.
    """

    what: str
    checkpoint: int
    ready_after: float
    checkpoint_after: float
    began: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The demo's result."""

    verdict: Verdict
    incidents: tuple[Incident, ...]
    pauses: tuple[float, ...]
    """The longest time without a written record, in seconds, for each incident."""
    written: tuple[int, ...]
    """When each record of the sink was written, in milliseconds since 1970."""
    status: dict[str, Any]
    open_transactions: tuple[str, ...]
    held_back: int

    @property
    def good(self) -> bool:
        """Whether every record is there exactly once with the right content, and no transaction is open."""
        return self.verdict.exactly_once and not self.open_transactions and self.held_back == 0


class FlightsStory:
    """Plays the story on a cluster where the operator runs.

    :param engine: a key of :data:`demo.manifest.ENGINES`.
    :param records: number of flights; tests use fewer.
    :param rate: records a second during the incidents; the remaining records follow without a limit.
    """

    def __init__(
        self,
        environment: ClusterEnvironment,
        progress: Progress,
        *,
        namespace: str = NAMESPACE,
        engine: str = "micro-batch",
        records: int = ALL_FLIGHTS,
        rate: float = 3000.0,
    ) -> None:
        self._environment = environment
        self._progress = progress
        self._records = records
        self._rate = rate
        self._kubectl = Kubectl(environment, namespace)
        self._topics = Topics(environment.bootstrap)
        self._resource = flights_job(environment, engine)
        spec = self._resource["spec"]
        # Each namespace has its own topics, so that tests and the demo can share a broker.
        suffix = "" if namespace == NAMESPACE else f".{namespace}"
        self.source = spec["source"]["topics"][0] + suffix
        self.sink = spec["sink"]["topic"] + suffix
        spec["source"]["topics"], spec["sink"]["topic"] = [self.source], self.sink
        self.name: str = self._resource["metadata"]["name"]
        self.engine: str = spec.get("engine", "MicroBatch")
        self._incidents: list[Incident] = []

    def play(self) -> Outcome:
        """Runs all incidents, then counts.

        :raises SetupError: a step did not happen in time. The job stays, so that a person can look at it.
        """
        self._start_afresh()
        with LiveJob(self._kubectl, self.name) as job, ExitStack() as stack:
            with self._progress.step(f"wait until job {self.name} is Ready"):
                status = job.wait_ready()
            self._say(f"attempt {status['attempt']['id']} runs with parallelism {status['parallelism']}")
            loader = stack.enter_context(self._loader())
            job.wait_checkpoint(2)
            self._kill_driver(job, loader)
            self._kill_executor(job, loader)
            self._rescale(job, loader, 3)
            self._rescale(job, loader, 1)
            with self._progress.step("load the remaining records and wait until the job has read all of them"):
                loaded = loader.finish(PATIENCE)
                status = job.wait_read(loaded)
        return self._judge(dict(status))

    def _loader(self) -> PacedLoader:
        records = flights(self._records)
        return PacedLoader(self._environment.bootstrap, self.source, records, total=self._records, rate=self._rate)

    def clean_up(self) -> None:
        """Deletes the job and its topics; operator and cluster keep running."""
        self._kubectl.delete(names.PLURAL, self.name)
        self._topics.delete([self.source, self.sink])

    def _start_afresh(self) -> None:
        with self._progress.step("create the namespace, empty topics and the job"):
            self._kubectl.ensure_namespace(self._kubectl.namespace)
            # The job of a run with --keep, or of a run that was stopped.
            self._kubectl.delete(names.PLURAL, self.name)
            self._await_no_pods()
            self._topics.recreate([self.source, self.sink], partitions=PARTITIONS)
            self._kubectl.apply(code_config_map(self._resource), self._resource)

    def _await_no_pods(self) -> None:
        # A job of the same name continues the numbers of the attempts that it finds: a new story begins with attempt 1.
        selector = f"--selector={names.LABEL_JOB}={self.name}"
        if self._kubectl.list("pods", f"{names.LABEL_JOB}={self.name}"):
            self._kubectl.run(
                "wait", "pods", selector, "--for=delete", f"--timeout={PATIENCE:.0f}s", seconds=PATIENCE + 10
            )

    def _kill_driver(self, job: LiveJob, loader: PacedLoader) -> None:
        attempt = job.attempt

        def act() -> str:
            return f"sent SIGKILL to every process of {job.kill_driver()}"

        def back() -> str:
            status = job.wait_ready(attempt_above=attempt)
            return f"attempt {status['attempt']['id']} runs"

        self._incident("kill the driver (SIGKILL)", job, loader, act, back)

    def _kill_executor(self, job: LiveJob, loader: PacedLoader) -> None:
        wanted = int(job.status["executors"]["desired"])
        job.wait_executors(wanted)
        victim: dict[str, Any] = {}

        def act() -> str:
            victim.update(job.kill_executor())
            return f"sent SIGKILL to every process of {victim['metadata']['name']}"

        def back() -> str:
            job.wait_executors(wanted, without=victim["metadata"]["uid"])
            return f"all {wanted} executors run"

        self._incident("kill an executor (SIGKILL)", job, loader, act, back)

    def _rescale(self, job: LiveJob, loader: PacedLoader, parallelism: int) -> None:
        before = job.status["parallelism"]

        def act() -> str:
            job.rescale(parallelism)
            return f"kubectl scale ksj/{job.name} --replicas={parallelism}"

        def back() -> str:
            # The continuous engine stays in its attempt, and micro-batches begin another.
            status = job.wait_ready(parallelism=parallelism)
            return f"attempt {status['attempt']['id']} runs with parallelism {status['parallelism']}"

        self._incident(f"rescale {before} -> {parallelism}", job, loader, act, back)

    def _incident(
        self, what: str, job: LiveJob, loader: PacedLoader, act: Callable[[], str], back: Callable[[], str]
    ) -> None:
        # The job must be running: it has completed a checkpoint since the last incident, and data still comes in.
        checkpoint = job.wait_checkpoint(job.state.latest.checkpoint + 1).checkpoint
        with self._progress.step(f"{what} after checkpoint {checkpoint}, {loader.sent:,} records sent"):
            attempt, began, clock = job.attempt, time.time(), time.monotonic()
            self._say(act())
            under_way = job.state.latest.checkpoint + _AT_A_TIME
            state = back()
            ready_after = time.monotonic() - clock
            self._say(f"{state} after {ready_after:.1f} s")
            behind = under_way if job.attempt == attempt else checkpoint
            found = job.wait_new_checkpoint(clock, attempt=job.attempt, checkpoint=behind)
            checkpoint_after = found.at - clock
            self._say(f"checkpoint {found.checkpoint} is final after {checkpoint_after:.1f} s")
        self._incidents.append(
            Incident(
                what=what,
                checkpoint=checkpoint,
                ready_after=ready_after,
                checkpoint_after=checkpoint_after,
                began=began,
            )
        )

    def _judge(self, status: dict[str, Any]) -> Outcome:
        with self._progress.step(
            f"read {self.source} and {self.sink} with a read_committed consumer, and compare them"
        ):
            sink = read_committed(self._environment.bootstrap, self.sink)
            verdict = compare(read_committed(self._environment.bootstrap, self.source), sink, expect=expected)
            prefix = str(status.get("transactions", {}).get("prefix") or "")
            return Outcome(
                verdict=verdict,
                incidents=tuple(self._incidents),
                pauses=tuple(
                    longest_pause(sink, since=incident.began, until=incident.began + incident.checkpoint_after)
                    for incident in self._incidents
                ),
                written=tuple(record.timestamp for record in sink),
                status=status,
                open_transactions=tuple(open_transactions(self._environment.bootstrap, prefix)),
                held_back=self._topics.held_back(self.sink),
            )

    def _say(self, text: str) -> None:
        self._progress.say(f"    {text}")
