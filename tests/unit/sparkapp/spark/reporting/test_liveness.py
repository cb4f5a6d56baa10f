"""What a driver knows of itself: heartbeats, a lag by its own clock, and a stream that stands still."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaUnreachable, StreamStalled
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import BEGINNINGS_SECONDS, decode_report
from sparkapp.spark.reporting.lag_clock import KNOWN_SECONDS, LagClock
from sparkapp.spark.reporting.liveness import (
    MAX_STEP_SECONDS,
    START_SECONDS,
    STREAM_SECONDS,
    StreamLiveness,
    Watchdog,
    step_seconds,
)
from sparkapp.spark.reporting.progress import Progress
from sparkapp.spark.reporting.reporter import Reporter
from tests.support.patience import PATIENCE

A0 = TopicPartition("a", 0)


def test_an_unchanged_report_is_written_again_as_a_heartbeat() -> None:
    written: list[str] = []
    beats = threading.Semaphore(0)

    def write(text: str) -> None:
        written.append(text)
        beats.release()

    reporter = Reporter(job_uid="u", attempt=1, write=write, interval=0.001, heartbeat=0.01, steps=lambda: len(written))
    for _ in range(3):
        assert beats.acquire(timeout=PATIENCE)
    reporter.close()
    report = decode_report(written[-1], job_uid="u")
    assert report is not None
    assert (report.heartbeat_seconds, report.lag_records) == (10, None)
    assert report.steps == len(written) - 1


@dataclass
class Source:
    """An enumerator whose stream thread makes no plans."""

    pending: dict[TopicPartition, int] | None = None
    seconds_since_look: float = 0.0
    ends: list[int] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    first: list[int] = field(default_factory=list)

    def beginnings(self) -> dict[TopicPartition, int]:
        if not self.first:
            raise KafkaUnreachable("no broker answers")
        return {A0: self.first.pop(0)}

    def look(self) -> None:
        if not self.ends:
            raise KafkaUnreachable("no broker")
        self.pending, self.seconds_since_look = {A0: self.ends.pop(0)}, 0.0


def test_the_lag_grows_without_a_plan_and_is_unknown_without_brokers() -> None:
    report: dict[str, Any] = {}
    progress = Progress(lambda **fields: report.update(fields))
    source = Source(ends=[5, 90])
    clock = LagClock(source, progress)
    progress._pending = lambda: clock.pending
    clock.tick()
    assert report["lag_records"] == 5
    source.seconds_since_look = 3.0
    clock.tick()
    assert source.ends == [90], "a plan has just looked"
    source.seconds_since_look = 10.0
    clock.tick()
    assert report["lag_records"] == 90
    source.seconds_since_look = KNOWN_SECONDS + 1
    clock.tick()
    assert report["lag_records"] is None
    assert progress.pending is None


def test_the_beginnings_are_asked_for_now_and_then() -> None:
    report: dict[str, Any] = {}
    progress = Progress(lambda **fields: report.update(fields))
    seconds = [0.0]
    source = Source(ends=[5] * 9, topic_ids={"a": "0123456789"})
    clock = LagClock(source, progress, clock=lambda: seconds[0])
    clock.tick()
    assert "beginnings" not in report, "no broker answers"
    source.first = [3, 8]
    clock.tick()
    assert (report["beginnings"].offsets, report["beginnings"].topic_ids) == ({A0: 3}, {"a": "0123456789"})
    seconds[0] = BEGINNINGS_SECONDS - 1
    clock.tick()
    assert report["beginnings"].offsets == {A0: 3}
    seconds[0] = BEGINNINGS_SECONDS
    clock.tick()
    assert report["beginnings"].offsets == {A0: 8}


def test_a_defect_in_one_look_does_not_end_the_clock() -> None:
    looked = threading.Semaphore(0)

    class Defect(Source):
        def look(self) -> None:
            looked.release()
            raise RuntimeError("a defect")

    clock = LagClock(Defect(), Progress(lambda **_: None), interval=0.001)
    clock.start()
    for _ in range(3):
        assert looked.acquire(timeout=PATIENCE), "the lag is measured no more"
    clock.close()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


def watchdog(liveness: StreamLiveness, now: list[float], **options: Any) -> Watchdog:
    dog = Watchdog(stalled=lambda _: None, clock=lambda: now[0])
    dog.watch(liveness, **options)
    return dog


def ticks(dog: Watchdog, now: list[float], seconds: float) -> StreamStalled | None:
    for _ in range(int(seconds)):
        now[0] += 1
        error = dog.tick()
        if error is not None:
            return error
    return None


def test_a_stream_that_stands_still_ends_the_attempt_and_one_that_moves_does_not(now: list[float]) -> None:
    liveness = StreamLiveness()
    dog = watchdog(liveness, now)
    for checkpoint in range(5):
        with liveness.during(f"checkpoint {checkpoint}", 500):
            assert ticks(dog, now, 490) is None
        assert ticks(dog, now, STREAM_SECONDS - 5) is None
    with liveness.during("checkpoint 9", 50):
        error = ticks(dog, now, 60)
    assert error is not None
    assert error.message == "the stream made no progress for 51 s: it was in checkpoint 9"
    assert "thread MainThread" in error.detail


def test_time_in_which_the_driver_was_frozen_does_not_count(now: list[float]) -> None:
    liveness = StreamLiveness()
    dog = watchdog(liveness, now)
    with liveness.during("checkpoint 1", 50):
        assert ticks(dog, now, 10) is None
        now[0] += 3600
        assert ticks(dog, now, 30) is None


def test_a_stream_that_waits_for_executors_does_not_stand_still(now: list[float]) -> None:
    waits = [True]
    liveness = StreamLiveness()
    dog = watchdog(liveness, now, suspended=lambda: waits[0])
    with liveness.during("checkpoint 1", 50):
        assert ticks(dog, now, 500) is None
        waits[0] = False
        assert ticks(dog, now, 60) is not None


def test_a_start_that_stands_still_ends_the_attempt_unless_it_settles(
    now: list[float],
) -> None:
    answers = [0]
    dog = Watchdog(stalled=lambda _: None, clock=lambda: now[0])
    dog.enter("recovery", START_SECONDS, progress=lambda: answers[0])
    for _ in range(10):
        answers[0] += 1
        assert ticks(dog, now, START_SECONDS - 5) is None
    dog.enter("the start of Spark", START_SECONDS)
    error = ticks(dog, now, START_SECONDS + 5)
    assert error is not None
    assert error.message == "the attempt made no progress for 301 s: it was in the start of Spark"


def test_each_step_and_its_progress_change_a_number(now: list[float]) -> None:
    watchdog = Watchdog(stalled=lambda error: None, clock=lambda: now[0])
    answers = [0]
    seen = [watchdog.steps]
    watchdog.enter("recovery", 300, progress=lambda: answers[0])
    for number in (0, 1, 2, 10**9):
        answers[0] = number
        seen.append(watchdog.steps)
    watchdog.enter("the start of the source", 300)
    seen.append(watchdog.steps)
    assert len(set(seen)) == len(seen)
    assert watchdog.steps == seen[-1], "time is no progress"


def test_a_standby_waits_for_its_activation_without_a_limit(now: list[float]) -> None:
    dog = Watchdog(stalled=lambda _: None, clock=lambda: now[0])
    dog.enter("the wait for the activation", math.inf)
    assert ticks(dog, now, 9999) is None
    liveness = StreamLiveness()
    dog.watch(liveness)
    liveness.enter("checkpoint 1", 50)
    assert ticks(dog, now, 45) is None
    dog.enter("the end of the attempt", 50)
    assert ticks(dog, now, 45) is None
    assert ticks(dog, now, 10) is not None


def test_a_checkpoint_may_take_as_long_as_its_transactions() -> None:
    sink = Sink(topic="t", transactional_id_prefix="p", transaction_timeout_seconds=120)
    assert step_seconds(sink) == 180
    assert (
        step_seconds(Sink(topic="t", delivery_guarantee=DeliveryGuarantee.NONE, transactional_id_prefix="p"))
        == MAX_STEP_SECONDS
    )


def test_the_report_says_what_is_unknown() -> None:
    written: list[str] = []
    reporter = Reporter(job_uid="u", attempt=1, write=written.append, interval=0.001)
    reporter.close()
    assert json.loads(written[-1])["lag_known"] is False
