"""Attempts of the local pace whose engine works without a pause, until a test drains or kills it."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field, replace

from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.spark.reporting.reporter import now
from tests.support.fakes.memory_store import MemoryStore
from tests.support.protocol.local_pace_run import LocalPaceRun
from tests.support.protocol.subtask_process import SubtaskProcess

_PATIENCE = 10.0
_END_SECONDS = 120.0


@dataclass
class LocalAttempts:
    """A job over attempts that follow each other; the test takes Spark's part and Kubernetes'.

    :param executors: bootstrap servers of the subtasks, if they have others than the driver.
    :ivar frozen: processes that the test has taken away from an attempt, and may thaw.
    """

    spec: JobSpec
    uid: str
    executors: str = ""
    store: MemoryStore = field(default_factory=MemoryStore)
    number: int = 0
    frozen: list[SubtaskProcess] = field(default_factory=list)
    _run: LocalPaceRun | None = None
    _is_over: bool = True

    @property
    def subtasks(self) -> dict[int, SubtaskProcess]:
        """The present process of each subtask."""
        assert self._run is not None
        return self._run.subtasks

    @property
    def coordinator(self) -> LocalCoordinator:
        assert self._run is not None
        return self._run.coordinator

    def start(self, parallelism: int) -> None:
        """Begins the next attempt; returns when its driver has recovered."""
        self._run = LocalPaceRun(
            self._next(parallelism), self.store, lambda numbers: numbers, random.Random(self.number), now,
            executors=self.executors, patience=_PATIENCE,
        )  # fmt: skip
        self._run.start()
        if self._run.failure is not None:
            raise self._run.failure
        self._is_over = False
        self._failure: BaseException | None = None
        self._driver = threading.Thread(target=self._drive, args=(self._run,))
        self._driver.start()

    def last_attempt(self) -> Job:
        """A deleted job's attempt after a crash; it is not started."""
        return replace(self._next(1), settles_only=True)

    def drain(self) -> None:
        """An orderly end."""
        assert self._run is not None
        self._run.draining = True
        self._driver.join(_END_SECONDS)
        assert not self._driver.is_alive()
        self._end()
        if self._failure is not None:
            raise self._failure

    def kill(self, *, frozen: bool = False) -> None:
        """The driver dies, and its subtasks find the end of their connections.

        :param frozen: they are frozen before, and the test may thaw them during a later attempt.
        """
        assert self._run is not None
        if frozen:
            self.frozen += self._run.take_away()
        self._run.die()
        self._end()
        self._driver.join(_END_SECONDS)

    def replace(self, number: int) -> None:
        """Freezes a subtask and starts another for it, as after a silence that only the driver has seen."""
        assert self._run is not None
        self.frozen.append(self._run.replace(number))

    def thaw(self) -> None:
        """Whatever was frozen and taken away continues."""
        for process in self.frozen:
            process.thaw()

    def close(self) -> None:
        """Ends everything."""
        if not self._is_over:
            self.kill()
        for process in self.frozen:
            process.kill()

    def _next(self, parallelism: int) -> Job:
        self.number += 1
        spec = replace(self.spec, parallelism=parallelism)
        return Job(namespace="ns", name=self.uid, uid=self.uid, generation=1, attempt=self.number, spec=spec)

    def _end(self) -> None:
        assert self._run is not None
        self._is_over = True
        self._run.close()

    def _drive(self, run: LocalPaceRun) -> None:
        try:
            run.run_to_the_end()
        except BaseException as error:
            self._failure = error
        else:
            self._failure = run.failure
