"""A group of jobs with state whose drivers share a process, which dies and freezes: a schedule for each job.

Most of a schedule's time would be a JVM that starts and compiles. So the jobs of a group have their drivers, engines
and Python workers in one process. It dies where one of them reaches the fault, and the others wherever they are.
Their state is on a disk of its own, which loses its power or is full.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.errors import VolumeFull, VolumeUnusable
from sparkapp.model.protocol import ProtocolStep
from tests.soak.state.story import Story
from tests.soak.storm import stateful
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import QUICK_JVM, LocalJob
from tests.support.jobs.volume import disk

TOGETHER = 24
"""Jobs of a group."""
_THAWED_SECONDS = 120.0
"""For a driver that was frozen to see that it was replaced."""
_INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
"""For a JVM that lives for minutes. Spark interprets its plans, which it promises to have the same results."""


@dataclass(frozen=True)
class _Frozen:
    """A process that stands still, and its attempts."""

    host: EngineHost
    jobs: Sequence[LocalJob]


class Group:
    """Some attempts, each with records of its own and a fault, then one in peace and the count of what readers see.

    :param seeds: of its jobs. What all of them meet follows from the first.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self._seeds = seeds
        self._dice = random.Random(f"group {seeds[0] // TOGETHER}")
        self._stories: list[Story] = []
        self._frozen: list[_Frozen] = []
        self._thawed = 0
        self._history: list[str] = []
        self._hosts: list[EngineHost] = []

    def run(self, bootstrap: str, client: TransactionClient, make_topic: Callable[..., str], *, prefix: str) -> None:
        """Raises AssertionError where a row is lost, repeated or foreign, or a transaction left open."""
        with ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-state-", ignore_cleanup_errors=True))
            )
            try:
                self._disk = stack.enter_context(disk(folder / "disk.image", folder / "disk"))
            except pytest.skip.Exception as refused:  # no Exception of Python's, so the pool would wait for ever
                raise RuntimeError(str(refused)) from refused
            code = folder / "code"
            code.mkdir()
            (code / f"{stateful.CODE}.py").write_text(stateful.MODULE)
            self._variables = {
                "KAFKASPARK_CODE": str(code),
                "JAVA_TOOL_OPTIONS": f"{QUICK_JVM['JAVA_TOOL_OPTIONS']} {_INTERPRETED}",
            }
            self._folder = folder
            self._stories = [
                Story.thrown(
                    seed, folder / str(seed), self._disk.folder / str(seed), code, bootstrap=bootstrap, client=client,
                    make_topic=make_topic, prefix=prefix,
                )
                for seed in self._seeds
            ]  # fmt: skip
            self._disk.flush()
            stack.callback(self._kill)
            for _ in range(self._dice.randint(2, 3)):
                self._attempt()
            self._last_attempt()
            print(f"seeds {self._seeds[0]} to {self._seeds[-1]}: {'; '.join(self._history)}", flush=True)

    @property
    def history(self) -> list[str]:
        """What happened, for the message of a failure."""
        return [*self._history, *(line for story in self._stories for line in story.history)]

    def _attempt(self) -> None:
        dice, number = self._dice, self._stories[0].job.attempt + 1
        host = self._new_host()
        chance, fault, what, strike = dice.random(), "", "in peace", self._await_end_or_records
        if number > 1 and chance < 0.25:
            fault = f"repartition:{dice.choice(['before', 'within'])}@{number}"
        elif chance < 0.55:
            job = dice.choice(self._stories).job
            checkpoint = job.newest() + dice.randint(1, 3)
            fault = f"{dice.choice(list(ProtocolStep))}@attempt={number},checkpoint={checkpoint},job={job.uid}"
        elif chance < 0.9:
            what, strike = dice.choice([
                ("freezes", partial(self._freeze, host)), ("loses power", self._lose_power), ("is full", self._fill),
            ])  # fmt: skip
        self._history.append(f"attempt {number}, {fault or what}")
        if fault:
            host.arm(fault)
        for story in self._stories:
            story.begin(host, may_restore=not self._frozen)
        self._thaw()
        strike()
        allowed = [VolumeFull, VolumeUnusable] if strike == self._fill else []
        for story in self._stories:
            story.ended(*allowed)
        if host not in [frozen.host for frozen in self._frozen]:
            host.close()

    def _last_attempt(self) -> None:
        host = self._new_host()
        self._history.append("the last attempt")
        for story in self._stories:
            story.start(host)
        for story in self._stories:
            story.wait(story.has_written, "a document of the last attempt")
        self._thaw()
        for story in self._stories:
            story.wait(story.is_read, "all is read")
            story.send_last()
        for story in self._stories:
            story.await_rows()
        self._drain()
        for frozen in self._frozen:
            for job in frozen.jobs:
                job.await_end(_THAWED_SECONDS)
        for story in self._stories:
            assert story.job.process is not None
            assert story.job.process.poll() == 0, story.job.log()
            story.require_exactly_once()

    def _new_host(self) -> EngineHost:
        host = EngineHost(self._folder, self._variables)
        self._hosts.append(host)
        return host

    def _freeze(self, host: EngineHost) -> None:
        """Drivers, JVM and workers stop in the middle of what they do, and nobody waits for them."""
        self._await_some_checkpoint()
        host.signal(signal.SIGSTOP)
        self._frozen.append(_Frozen(host, [story.job.left() for story in self._stories]))

    def _lose_power(self) -> None:
        """All processes are gone, frozen ones, too, and whatever they had not made durable."""
        self._await_some_checkpoint()
        self._kill()
        self._thawed = len(self._frozen)
        self._disk.lose_power()

    def _fill(self) -> None:
        """The disk is full until each attempt has failed or read all records."""
        self._await_some_checkpoint()
        self._disk.fill()
        for story in self._stories:
            story.await_end_or_records()
        self._disk.free()
        self._drain()

    def _await_some_checkpoint(self) -> None:
        """Of one of the jobs, and a moment more."""
        story = self._dice.choice(self._stories)
        known = story.job.newest()
        story.wait(
            lambda: story.has_ended() or story.job.newest() > known or story.is_read(), "a checkpoint", may_end=True
        )  # fmt: skip
        time.sleep(self._dice.random() * 2)

    def _kill(self) -> None:
        for host in self._hosts:
            host.close()

    def _thaw(self) -> None:
        """While the next attempt starts, or behind a first checkpoint of it."""
        if self._thawed == len(self._frozen):
            return
        if self._dice.random() < 0.5:
            story = self._dice.choice(self._stories)
            story.wait(
                lambda: story.has_ended() or story.has_written(), "a document of the next attempt", may_end=True
            )  # fmt: skip
        self._thawed = len(self._frozen)
        self._frozen[-1].host.signal(signal.SIGCONT)
        self._history.append("thawed")

    def _await_end_or_records(self) -> None:
        """A fault at a step that no attempt reaches leaves them running: they drain."""
        for story in self._stories:
            story.await_end_or_records()
        self._drain()

    def _drain(self) -> None:
        """All of them at the same time."""
        for story in self._stories:
            if not story.has_ended():
                assert story.job.process is not None
                story.job.process.send_signal(signal.SIGTERM)
        for story in self._stories:
            story.job.await_end()
