"""A standby driver: what it waits for, and what ends the wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.errors import TransformFailed
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import Job
from sparkapp.model.report import AttemptOutcome, DriverState
from sparkapp.spark import driver as driver_module
from sparkapp.spark.driver import Driver
from sparkapp.spark.launch import standby as module
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.launch.standby import await_activation, await_takeover
from sparkapp.spark.wiring.wiring import Wiring
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.plain_job import plain_spec
from tests.support.patience import PATIENCE


@dataclass
class Activation:
    """Activates after some waits."""

    after: int
    announced: int = 0
    waits: int = 0
    on_wait: Callable[[], None] = field(default=lambda: None)

    def announce(self) -> None:
        self.announced += 1

    def wait(self, seconds: float) -> bool:
        assert seconds > 0
        self.waits += 1
        self.on_wait()
        return self.waits >= self.after


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Executors are there, and what they load is noted."""
    calls: list[int] = []
    monkeypatch.setattr(module, "has_executors", lambda _: True)
    monkeypatch.setattr(module, "load_workers", lambda _, tasks: calls.append(tasks))
    return calls


def spark() -> Any:
    return object()


def test_prepared_it_says_so_and_waits(loaded: list[int]) -> None:
    activation = Activation(after=3)
    assert await_activation(activation, spark(), tasks=2, stopped=lambda: False)
    assert (loaded, activation.announced, activation.waits) == ([2], 1, 3)


def test_an_activation_before_the_executors_is_taken(monkeypatch: pytest.MonkeyPatch, loaded: list[int]) -> None:
    monkeypatch.setattr(module, "has_executors", lambda _: False)
    activation = Activation(after=2)
    assert await_activation(activation, spark(), tasks=2, stopped=lambda: False)
    assert (loaded, activation.announced) == ([], 0)


def test_without_executors_it_says_so_after_a_while(monkeypatch: pytest.MonkeyPatch, loaded: list[int]) -> None:
    """There may be no room for them as long as the present attempt has its own."""
    monkeypatch.setattr(module, "has_executors", lambda _: False)
    monkeypatch.setattr(module, "_EXECUTORS_SECONDS", 0.0)
    activation = Activation(after=1)
    assert await_activation(activation, spark(), tasks=2, stopped=lambda: False)
    assert (loaded, activation.announced) == ([], 1), "loading would wait for them for ever"


def test_a_stop_ends_the_wait(loaded: list[int]) -> None:
    stops: list[bool] = []
    activation = Activation(after=100, on_wait=lambda: stops.append(True))
    assert not await_activation(activation, spark(), tasks=2, stopped=lambda: bool(stops))
    assert activation.waits == 2, "the last look at the activation"


def test_a_stop_does_not_undo_an_activation(loaded: list[int]) -> None:
    """The turn came while the JVM started, and then the stop: this attempt has to settle what its predecessor left."""
    activation = Activation(after=1)
    assert await_activation(activation, spark(), tasks=2, stopped=lambda: True)
    assert (loaded, activation.announced) == ([], 0)


def test_a_stop_with_the_activation_does_not_undo_it(loaded: list[int]) -> None:
    stops: list[bool] = []
    activation = Activation(after=1, on_wait=lambda: stops.append(True))
    assert await_activation(activation, spark(), tasks=2, stopped=lambda: bool(stops))


@pytest.mark.parametrize("given", [True, False])
def test_a_driver_that_is_stopped_recovers_where_it_is_activated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: bool
) -> None:
    attempts: list[bool] = []
    monkeypatch.setattr(Driver, "_run_attempt", lambda *_: attempts.append(True))
    spec = plain_spec(kafka=KafkaCluster(bootstrap_servers="127.0.0.1:1"))
    environment = DriverEnvironment(
        store=MemoryStore(), retained=MemoryRetainedStore(), write_report=lambda _: None, open_session=spark,
        close_session=lambda _: None, folder=tmp_path, stateful_allowed=False, credentials=tmp_path,
        activation=Activation(after=1 if given else 100),
    )  # fmt: skip
    driver = Driver(Job(namespace="n", name="job", uid="u", generation=1, attempt=2, spec=spec), environment)
    driver.drain()
    assert driver.run().outcome is AttemptOutcome.DRAINED
    assert attempts == [True] * given


def test_a_standby_with_subtasks_is_prepared_when_they_are_ready() -> None:
    looks = iter([False, False, True])
    activation = Activation(after=4)
    assert await_takeover(activation, ready=lambda: next(looks), stopped=lambda: False)
    assert (activation.announced, activation.waits) == (1, 4)


def test_an_activation_before_the_subtasks_is_taken() -> None:
    """The present attempt has failed meanwhile."""
    activation = Activation(after=2)
    assert await_takeover(activation, ready=lambda: False, stopped=lambda: False)
    assert activation.announced == 0


def test_subtasks_that_end_fail_the_standby() -> None:
    def ready() -> bool:
        raise TransformFailed("no module enrich")

    with pytest.raises(TransformFailed):
        await_takeover(Activation(after=100), ready=ready, stopped=lambda: False)


@pytest.mark.parametrize("given", [True, False])
def test_a_standby_that_takes_over_reports_nothing_before_its_activation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, loaded: list[int], given: bool
) -> None:
    reports: list[str] = []
    built: list[int] = []

    def prepare(wiring: Wiring, start_session: Callable[[], Future[Any]]) -> Any:
        wiring._context.reporter.warn(DriverEvent.METRICS_UNAVAILABLE, "found while it prepares")
        return SimpleNamespace(session=start_session())

    def build(wiring: Wiring, *_: object) -> Any:
        built.append(len(reports))
        wiring._context.reporter.update(state=DriverState.RECOVERING)
        return SimpleNamespace(run=lambda: None, drain=lambda: None, finished=False)

    monkeypatch.setattr(Wiring, "prepare", prepare)
    monkeypatch.setattr(Wiring, "build", build)
    monkeypatch.setattr(driver_module, "import_pandas", lambda _: None)
    spec = plain_spec(kafka=KafkaCluster(bootstrap_servers="127.0.0.1:1"))
    driver: Driver
    activation = Activation(after=3 if given else 100, on_wait=lambda: None if given else driver.drain())
    environment = DriverEnvironment(
        store=MemoryStore(), retained=MemoryRetainedStore(), write_report=reports.append, open_session=spark,
        close_session=lambda _: None, folder=tmp_path, stateful_allowed=False, credentials=tmp_path,
        activation=activation, takes_over=True,
    )  # fmt: skip
    driver = Driver(Job(namespace="n", name="job", uid="u", generation=1, attempt=2, spec=spec), environment)
    assert driver.run().outcome is AttemptOutcome.DRAINED
    assert built == [0] * given
    assert bool(reports) == given
    assert all("found while it prepares" in report for report in reports)


def test_a_stop_ends_the_loading_of_workers_that_never_come(monkeypatch: pytest.MonkeyPatch, loaded: list[int]) -> None:
    """The operator deletes the executors with the attempt, and Spark asks for others."""
    stopped, released = threading.Event(), threading.Event()

    def load(_: object, tasks: int) -> None:
        stopped.set()
        released.wait(PATIENCE)

    monkeypatch.setattr(module, "load_workers", load)
    activation = Activation(after=100)
    assert not await_activation(activation, spark(), tasks=2, stopped=stopped.is_set)
    assert activation.announced == 0
    released.set()
