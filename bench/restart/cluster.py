"""Restarts of a job on the local cluster, seen from outside: pods, log, state ConfigMap and readers."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from bench.restart.marks import (
    ACTIVATED,
    ASKED,
    BEGUN,
    CONNECTED,
    DECIDED,
    FLOWING,
    LOST,
    OFFSETS_FREE,
    RESCALED,
    free_again,
    longest_silence,
    marks_of_log,
    marks_of_pods,
    moment_of,
)
from bench.restart.outage import Downstream, StableOffsets, SteadyRecords
from bench.restart.restarts import Kind, Restart
from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import LiveJob
from clusterjob.watch import TimedOut, Watch
from localcluster.errors import SetupError
from sparkapp.model import names
from sparkapp.model.job.spec import Engine
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

_START_SECONDS = 300.0
_OPEN_SECONDS = 30.0
_SAMPLED_SECONDS = 0.5


class ClusterRestarts:
    """See :class:`bench.restart.restarts.Site`.

    :param parallelisms: the present parallelism and that of the next rescale; they alternate.
    :param in_place: whether a rescale starts no attempt.
    :param stands_by: whether the job has a standby, which is awaited before each restart.
    """

    def __init__(
        self,
        *,
        site: ClusterJob,
        pods: Watch,
        loader: SteadyRecords,
        reader: Downstream,
        offsets: StableOffsets,
        parallelisms: tuple[int, int],
        stands_by: bool,
        in_place: bool,
    ) -> None:
        self._site = site
        self._pods = pods
        self._loader = loader
        self._reader = reader
        self._offsets = offsets
        self._parallelisms = parallelisms
        self._stands_by = stands_by
        self._in_place = in_place

    @classmethod
    @contextmanager
    def begin(cls, options: argparse.Namespace) -> Iterator[ClusterRestarts]:
        """Creates a namespace, topics, a running job and a steady load; removes them at the end.

        :raises SetupError: there is no cluster, or the job does not start.
        """
        environment = ClusterEnvironment.load()
        installation.install(environment)
        with ExitStack() as stack:
            site = ClusterJob.make(environment, "recovery")
            stack.callback(site.close)
            pods = stack.enter_context(Watch(site.kubectl, "pods", f"--selector={names.LABEL_JOB}={NAME}"))
            reader = stack.enter_context(Downstream(environment.bootstrap, site.sink))
            offsets = stack.enter_context(StableOffsets(environment.bootstrap, site.sink))
            loader = stack.enter_context(SteadyRecords(environment.bootstrap, site.source, options.rate))
            pause = options.backoff
            site.apply(
                parallelism=options.parallelism,
                engine=options.engine.value,
                executor={"cores": options.cores},
                checkpoint={"intervalSeconds": options.interval},
                # Each kill is a failure in sequence: with a factor the pause would soon be minutes.
                restartPolicy={
                    "backoff": {"initialSeconds": pause, "maxSeconds": max(1, pause), "multiplier": 1},
                    "maxConsecutiveFailures": 0,
                    "successor": options.successor,
                },
            )
            site.job.wait_ready(seconds=_START_SECONDS)
            reader.await_beyond({}, seconds=_START_SECONDS)
            yield cls(
                site=site, pods=pods, loader=loader, reader=reader, offsets=offsets,
                parallelisms=(options.parallelism, options.rescaled), stands_by=options.successor == "Standby",
                in_place=options.engine is Engine.CONTINUOUS,
            )  # fmt: skip

    def kill(self) -> Restart:
        """SIGKILL to every process of the driver's pod while a transaction is open."""
        job = self._site.job

        def act() -> float:
            pod = names.driver_pod(NAME, job.attempt)
            with ArmedKill(self._site.kubectl, pod, names.DRIVER_CONTAINER) as armed:
                if not self._offsets.await_open(seconds=_OPEN_SECONDS):
                    print("no transaction was open for long enough to be seen", file=sys.stderr)
                return armed.fire()

        return self._restart(Kind.KILL, act)

    def rescale(self) -> Restart:
        """``kubectl scale`` to the other parallelism."""
        present, wanted = self._parallelisms
        self._parallelisms = wanted, present

        def act() -> float:
            asked = time.time()
            self._site.job.rescale(wanted)
            return asked

        if self._in_place:
            rescaled = partial(_runs_with, wanted)
            return self._within_attempt(Kind.RESCALE, act, ended=lambda job: job.wait("the rescale", rescaled))
        return self._restart(Kind.RESCALE, act)

    def take_over(self) -> Restart:
        """See :class:`bench.restart.restarts.Site`; ``tests/e2e/test_blue_green.py`` has it."""
        sys.exit(f"{Kind.TAKEOVER.value} needs --local")

    def lose(self, kind: Kind) -> Restart:
        """SIGKILL to every process of an executor's pod; Spark starts another."""
        if kind is not Kind.EXECUTOR:
            sys.exit(f"{kind.value} needs --local")

        def act() -> float:
            asked = time.time()
            self._killed = self._site.job.kill_executor()["metadata"]["uid"]
            return asked

        count = len(self._site.job.pods(names.ROLE_EXECUTOR))
        return self._within_attempt(
            kind, act, ended=lambda job: job.wait_executors(count, without=self._killed, seconds=_START_SECONDS)
        )

    def judge(self) -> str:
        """See :class:`bench.restart.restarts.Site`."""
        self._site.job.wait_read(self._loader.end(), seconds=_START_SECONDS)
        verdict = self._site.judge()
        if not verdict.exactly_once:
            sys.exit(f"not exactly once: {verdict.explain()}")
        self._site.assert_nothing_open()
        return verdict.explain()

    def _within_attempt(self, kind: Kind, act: Callable[[], float], *, ended: Callable[[LiveJob], object]) -> Restart:
        """What the attempt outlives.

        :param ended: blocks until the attempt runs as it should.
        """
        job = self._site.job
        attempt = job.wait_ready(seconds=_START_SECONDS)["attempt"]["id"]
        job.wait_checkpoint(job.state.latest.checkpoint + 2, attempt=attempt, seconds=120)
        self._offsets.forget()
        time.sleep(_SAMPLED_SECONDS)
        asked = act()
        before = self._offsets.ends_before(asked)
        ended(job)
        job.wait_checkpoint(job.state.latest.checkpoint + 2, attempt=attempt, seconds=120)
        over = time.time()
        log = self._site.kubectl.run(
            "logs", names.driver_pod(NAME, attempt), f"--container={names.DRIVER_CONTAINER}", "--timestamps"
        )
        lines = [line for line in log.splitlines() if (moment_of(line) or 0) > asked]
        marks = marks_of_log(lines)
        flowing = self._reader.await_beyond(before, seconds=60)
        if RESCALED in marks:
            flowing = min((at for at in self._reader.arrivals(marks[RESCALED])), default=over)
        silence = longest_silence(self._reader.arrivals(asked - 10), since=asked, until=over)
        marks = {name: at for name, at in marks.items() if name in {LOST, CONNECTED, RESCALED}}
        return Restart(kind=kind, attempt=attempt, marks={**marks, ASKED: asked, FLOWING: flowing}, silence=silence)

    def _restart(self, kind: Kind, act: Callable[[], float]) -> Restart:
        """
        :param act: ends the attempt and returns when it began to, in seconds since 1970.
        """
        job = self._site.job
        # After two more checkpoints the attempt runs steadily, without a backlog of the last restart.
        attempt = job.wait_ready(seconds=_START_SECONDS)["attempt"]["id"]
        checkpoint = job.wait_checkpoint(job.state.latest.checkpoint + 2, attempt=attempt, seconds=120).checkpoint
        if self._stands_by:
            self._site.await_prepared(attempt + 1, seconds=_START_SECONDS)
        self._offsets.forget()
        began, clock = time.time(), time.monotonic()
        asked = act()
        found = job.wait_new_checkpoint(clock, attempt=attempt + 1, checkpoint=checkpoint, seconds=_START_SECONDS)
        # A standby for the previous parallelism has an attempt number, too.
        new = found.attempt
        claims = [state.at for state in job.state.history if state.attempt == new]
        # Before the claim the previous attempt had ended and the new attempt had written nothing.
        flowing = self._reader.await_beyond(self._offsets.ends_before(_since_1970(claims[0])), seconds=60)
        # The log line of a checkpoint comes when it is complete, a moment after readers see its records.
        job.wait_checkpoint(found.checkpoint + 1, attempt=new, seconds=120)
        log = self._site.kubectl.run(
            "logs", names.driver_pod(NAME, new), f"--container={names.DRIVER_CONTAINER}", "--timestamps"
        )
        seen = [(_since_1970(event.at), event.object) for event in self._pods.seen if event.at >= clock]
        marks = {
            **marks_of_log(log.splitlines()), **marks_of_pods(seen, NAME, attempt, new),
            ASKED: asked, FLOWING: flowing,
        }  # fmt: skip
        # The log has the same clock without the watch's delay; without a log line the watch decides.
        marks.setdefault(DECIDED, _since_1970(found.at))
        begun = max((marks[mark] for mark in (BEGUN, ACTIVATED) if mark in marks), default=_since_1970(claims[0]))
        free = free_again(self._offsets.samples(began), begun=begun)
        if free is not None:
            marks[OFFSETS_FREE] = free
        return Restart(
            kind=kind,
            attempt=new,
            marks=marks,
            silence=longest_silence(self._reader.arrivals(asked - 10), since=asked, until=flowing),
            stable_seconds=None if free is None else free - asked,
        )


class ArmedKill:
    """SIGKILL to every process of a container, within milliseconds of :meth:`fire`; a context manager.

    ``kubectl exec`` takes some tenths of a second, and the transaction ends meanwhile. So here the command waits inside
    the container from the start. It kills what :meth:`clusterjob.kubectl.Kubectl.kill_processes` kills.
    """

    def __init__(self, kubectl: Kubectl, pod: str, container: str) -> None:
        script = "echo armed; read -r _ && kill -9 -1"
        self._pod = pod
        self._process = subprocess.Popen(
            kubectl.command("exec", "--stdin", pod, f"--container={container}", "--", "bash", "-c", script),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=kubectl.process_environment(),
        )  # fmt: skip

    def __enter__(self) -> ArmedKill:
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "armed":
            self._process.kill()
            raise SetupError(f"kubectl exec does not reach pod {self._pod}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(10)

    def fire(self) -> float:
        """Kills; returns when, in seconds since 1970.

        :raises TimedOut: the container does not end.
        """
        assert self._process.stdin is not None
        at = time.time()
        self._process.stdin.write("now\n")
        self._process.stdin.flush()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired as late:
            raise TimedOut(f"the processes of pod {self._pod} do not end") from late
        return at


def _runs_with(parallelism: int, status: Mapping[str, Any]) -> bool:
    runs, executors = status.get("reason") == "Running", status.get("executors", {})
    return bool(runs and status.get("parallelism") == parallelism and executors.get("running", 0) > 0)


def _since_1970(monotonic: float) -> float:
    return time.time() - time.monotonic() + monotonic
