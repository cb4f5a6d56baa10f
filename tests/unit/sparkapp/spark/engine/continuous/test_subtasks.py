"""The Spark jobs of the subtasks: which are cancelled, and which failures count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.spec import Engine, Job
from sparkapp.spark.engine.continuous.engine import StartedSubtasks
from sparkapp.spark.engine.continuous.subtasks import Subtasks
from sparkapp.spark.tasks.control_channel import Address, SubtaskChannel
from tests.support.jobs.plain_job import plain_spec
from tests.support.patience import PATIENCE, until

JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=1,
    spec=plain_spec(engine=Engine.CONTINUOUS, parallelism=2),
)  # fmt: skip


class Context:
    """Spark without places: a job runs until it is cancelled by a tag of its thread.

    :ivar running: the running jobs by description.
    """

    def __init__(self) -> None:
        self.running: dict[str, threading.Event] = {}
        self._tagged: dict[str, list[threading.Event]] = {}
        self._own = threading.local()

    def addJobTag(self, tag: str) -> None:
        self._own.tags = [*getattr(self._own, "tags", []), tag]

    def setJobDescription(self, text: str) -> None:
        self._own.description = text

    def parallelize(self, tasks: range, count: int) -> Any:
        assert len(tasks) == count
        return SimpleNamespace(foreachPartition=self._run)

    def cancelJobsWithTag(self, tag: str) -> None:
        """As Spark's, this is nothing for a job that begins later."""
        for job in self._tagged.get(tag, ()):
            job.set()

    def _run(self, _: Callable[..., None]) -> None:
        job = self.running[self._own.description] = threading.Event()
        for tag in self._own.tags:
            self._tagged.setdefault(tag, []).append(job)
        assert job.wait(PATIENCE)
        del self.running[self._own.description]
        raise RuntimeError("cancelled part of cancelled job tags")


class Rig:
    """A job with two subtasks, to which two are added that have no place."""

    def __init__(self) -> None:
        self.context = Context()
        spark: Any = SimpleNamespace(sparkContext=self.context)
        self.subtasks = Subtasks(JOB, spark=spark, address=Address("127.0.0.1", 1, b"key"))
        self.start(2, "subtasks 0 to 1")
        self.start(4, "subtasks 2 to 3")

    @property
    def running(self) -> set[str]:
        return set(self.context.running)

    def start(self, count: int, description: str) -> None:
        self.subtasks.start(count)
        until(lambda: description in self.context.running)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.subtasks.cancel()
    until(lambda: made.subtasks.ended and not made.running)


def test_a_wave_that_is_taken_back_leaves_no_job_and_is_no_failure(rig: Rig) -> None:
    for wave in range(2, 5):
        rig.subtasks.withdraw(2)
        rig.subtasks.cancel_withdrawn(set())
        until(lambda: rig.running == {"subtasks 0 to 1"})
        assert (rig.subtasks.failure(), rig.subtasks.ended, rig.subtasks.next_wave) == (None, False, wave)
        rig.start(4, "subtasks 2 to 3")


@pytest.mark.parametrize("ending", [{2}, {3}])
def test_a_wave_with_a_task_that_still_sends_is_left_alone(rig: Rig, ending: set[int]) -> None:
    rig.subtasks.withdraw(2)
    rig.subtasks.cancel_withdrawn(ending)
    assert not any(job.is_set() for job in rig.context.running.values())
    rig.subtasks.cancel_withdrawn(set())
    until(lambda: rig.running == {"subtasks 0 to 1"})


def test_a_wave_with_a_subtask_in_use_is_left_alone(rig: Rig) -> None:
    rig.subtasks.withdraw(3)
    rig.start(4, "subtasks 3 to 3")
    rig.subtasks.withdraw(3)
    rig.subtasks.cancel_withdrawn(set())
    until(lambda: rig.running == {"subtasks 0 to 1", "subtasks 2 to 3"})
    assert not any(job.is_set() for job in rig.context.running.values())


def test_an_end_is_that_of_withdrawn_waves_too(rig: Rig) -> None:
    rig.subtasks.withdraw(2)
    rig.subtasks.cancel()
    until(lambda: not rig.running)
    until(lambda: rig.subtasks.failure() is not None)
    assert rig.subtasks.ended


def test_subtasks_that_run_before_their_engine_are_started_once() -> None:
    context = Context()
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", **_methods(context)))
    started = StartedSubtasks(JOB, spark)
    try:
        started.start()
        until(lambda: set(context.running) == {"subtasks 0 to 1"})
        assert not started.are_connected(), "no task has connected"
        channels = [SubtaskChannel(started.server.address, subtask=each, task=each) for each in range(2)]
        until(started.are_connected)
        for channel in channels:
            channel.__exit__(None, None, None)
    finally:
        started.subtasks.cancel()
        started.close()


def test_subtasks_that_fail_before_their_engine_say_why() -> None:
    context = Context()
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", **_methods(context)))
    started = StartedSubtasks(JOB, spark)
    started.start()
    until(lambda: bool(context.running))
    context.running["subtasks 0 to 1"].set()
    until(lambda: started.subtasks.ended)
    with pytest.raises(KafkaSparkJobError, match="cancelled part of cancelled job tags"):
        started.are_connected()
    started.close()


def _methods(context: Context) -> dict[str, Any]:
    return {
        name: getattr(context, name) for name in ("addJobTag", "setJobDescription", "parallelize", "cancelJobsWithTag")
    }
