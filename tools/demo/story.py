"""The story: a job is started, killed twice and rescaled twice while data comes in; then every record is counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from demo.data import ALL_FLIGHTS, flights
from demo.delays import expected
from demo.environment import ClusterEnvironment
from demo.kubectl import Kubectl
from demo.live_job import LiveJob
from demo.loader import PacedLoader
from demo.manifest import code_config_map, flights_job
from demo.oracle import Verdict, compare, longest_pause
from demo.reading import read_committed
from demo.topics import Topics
from demo.transactions import open_transactions
from localcluster.progress import Progress
from sparkapp.model import names

NAMESPACE = "demo"
PARTITIONS = 4

_START_SECONDS = 180.0
_BACK_SECONDS = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something done to the running job.

    :param checkpoint: the last one completed before.
    :param running_after: seconds until the job was as wanted again: Ready, or with all its executors.
    :param going_on_after: seconds until the next checkpoint was final, which is when output is visible again.
    :param began: seconds since 1970.
    """

    what: str
    checkpoint: int
    running_after: float
    going_on_after: float
    began: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the demo found."""

    verdict: Verdict
    incidents: tuple[Incident, ...]
    pauses: tuple[float, ...]
    """Seconds without a record written, one for each incident."""
    status: dict[str, Any]
    open_transactions: tuple[str, ...]
    held_back: int

    @property
    def good(self) -> bool:
        """Whether every record is there once, as it should be, and nothing is left open."""
        return self.verdict.exactly_once and not self.open_transactions and self.held_back == 0


class FlightsStory:
    """Plays the story on a cluster where the operator runs.

    :param records: how many flights; fewer for tests.
    :param rate: records a second while the incidents happen; the rest comes at once afterwards.
    """

    def __init__(
        self,
        environment: ClusterEnvironment,
        progress: Progress,
        *,
        namespace: str = NAMESPACE,
        records: int = ALL_FLIGHTS,
        rate: float = 3000.0,
    ) -> None:
        self._environment = environment
        self._progress = progress
        self._records = records
        self._rate = rate
        self._kubectl = Kubectl(environment, namespace)
        self._topics = Topics(environment.bootstrap)
        self._resource = flights_job(environment)
        spec = self._resource["spec"]
        # Topics of the namespace's own, so that tests and the demo can be on one broker at a time.
        suffix = "" if namespace == NAMESPACE else f".{namespace}"
        self.source = spec["source"]["topics"][0] + suffix
        self.sink = spec["sink"]["topic"] + suffix
        spec["source"]["topics"], spec["sink"]["topic"] = [self.source], self.sink
        self.name: str = self._resource["metadata"]["name"]
        self._incidents: list[Incident] = []

    def play(self) -> Outcome:
        """The whole story.

        :raises SetupError: something did not happen in time; the job is left as it is, for a look.
        """
        self._start_afresh()
        with LiveJob(self._kubectl, self.name) as job, ExitStack() as stack:
            with self._progress.step(f"waiting until job {self.name} is Ready"):
                status = job.wait_ready(seconds=_START_SECONDS)
            self._say(f"attempt {status['attempt']['id']} runs with parallelism {status['parallelism']}")
            loader = stack.enter_context(self._loader())
            job.wait_checkpoint(2, seconds=60)
            self._kill_driver(job, loader)
            self._kill_executor(job, loader)
            self._rescale(job, loader, 3)
            self._rescale(job, loader, 1)
            with self._progress.step("loading the rest and waiting until the job has read everything"):
                loaded = loader.finish(60)
                status = job.wait_read(loaded, seconds=120)
        return self._judge(dict(status))

    def _loader(self) -> PacedLoader:
        records = flights(self._records)
        return PacedLoader(self._environment.bootstrap, self.source, records, total=self._records, rate=self._rate)

    def clean_up(self) -> None:
        """Deletes the job and its topics; the operator and the cluster stay."""
        self._kubectl.delete(names.PLURAL, self.name)
        self._topics.delete([self.source, self.sink])

    def _start_afresh(self) -> None:
        with self._progress.step("a namespace, empty topics and the job"):
            self._kubectl.ensure_namespace(self._kubectl.namespace)
            # One left by --keep, or by a run that was stopped.
            self._kubectl.delete(names.PLURAL, self.name)
            self._await_no_pods()
            self._topics.recreate([self.source, self.sink], partitions=PARTITIONS)
            self._kubectl.apply(code_config_map(self._resource), self._resource)

    def _await_no_pods(self) -> None:
        # A job of the same name numbers its attempts on from what it finds: a new story begins with attempt 1.
        selector = f"--selector={names.LABEL_JOB}={self.name}"
        if self._kubectl.list("pods", f"{names.LABEL_JOB}={self.name}"):
            self._kubectl.run("wait", "pods", selector, "--for=delete", "--timeout=90s", seconds=100)

    def _kill_driver(self, job: LiveJob, loader: PacedLoader) -> None:
        attempt = job.attempt

        def act() -> str:
            return f"every process of {job.kill_driver()} has got SIGKILL"

        def back() -> str:
            status = job.wait_ready(seconds=_BACK_SECONDS, attempt_above=attempt)
            return f"attempt {status['attempt']['id']} runs"

        self._incident("kill the driver (SIGKILL)", job, loader, act, back, next_attempt=attempt + 1)

    def _kill_executor(self, job: LiveJob, loader: PacedLoader) -> None:
        wanted = int(job.status["executors"]["desired"])
        job.wait_executors(wanted, seconds=60)
        victim: dict[str, Any] = {}

        def act() -> str:
            victim.update(job.kill_executor())
            return f"every process of {victim['metadata']['name']} has got SIGKILL"

        def back() -> str:
            job.wait_executors(wanted, without=victim["metadata"]["uid"], seconds=_BACK_SECONDS)
            return f"{wanted} executors run"

        self._incident("kill an executor (SIGKILL)", job, loader, act, back, next_attempt=job.attempt)

    def _rescale(self, job: LiveJob, loader: PacedLoader, parallelism: int) -> None:
        attempt, before = job.attempt, job.status["parallelism"]

        def act() -> str:
            job.rescale(parallelism)
            return f"kubectl scale ksj/{job.name} --replicas={parallelism}"

        def back() -> str:
            status = job.wait_ready(seconds=_BACK_SECONDS, attempt_above=attempt)
            return f"attempt {status['attempt']['id']} runs with parallelism {status['parallelism']}"

        self._incident(f"rescale {before} -> {parallelism}", job, loader, act, back, next_attempt=attempt + 1)

    def _incident(
        self,
        what: str,
        job: LiveJob,
        loader: PacedLoader,
        act: Callable[[], str],
        back: Callable[[], str],
        *,
        next_attempt: int,
    ) -> None:
        # The job must be at work: it has completed a checkpoint since the last incident, and data still comes in.
        checkpoint = job.wait_checkpoint(job.state.latest.checkpoint + 1, seconds=60).checkpoint
        with self._progress.step(f"{what} after checkpoint {checkpoint}, {loader.sent:,} records sent"):
            began, clock = time.time(), time.monotonic()
            self._say(act())
            said = back()
            running_after = time.monotonic() - clock
            self._say(f"{said} after {running_after:.1f} s")
            found = job.wait_going_on(clock, attempt=next_attempt, checkpoint=checkpoint, seconds=60)
            going_on_after = found.at - clock
            self._say(f"checkpoint {found.checkpoint} is final after {going_on_after:.1f} s")
        self._incidents.append(
            Incident(
                what=what,
                checkpoint=checkpoint,
                running_after=running_after,
                going_on_after=going_on_after,
                began=began,
            )
        )

    def _judge(self, status: dict[str, Any]) -> Outcome:
        with self._progress.step(
            f"reading {self.source} and {self.sink} with a read_committed consumer, and comparing"
        ):
            sink = read_committed(self._environment.bootstrap, self.sink)
            verdict = compare(read_committed(self._environment.bootstrap, self.source), sink, expect=expected)
            prefix = str(status.get("transactions", {}).get("prefix") or "")
            return Outcome(
                verdict=verdict,
                incidents=tuple(self._incidents),
                pauses=tuple(
                    longest_pause(sink, since=one.began, until=one.began + one.going_on_after)
                    for one in self._incidents
                ),
                status=status,
                open_transactions=tuple(open_transactions(self._environment.bootstrap, prefix)),
                held_back=self._topics.held_back(self.sink),
            )

    def _say(self, text: str) -> None:
        self._progress.say(f"    {text}")
