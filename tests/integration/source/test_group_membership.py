"""Members of a consumer group at a real broker: joins, leaves, static members, fencing, lost sessions, commits."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from localcluster.machine.processes import Identity
from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import GroupMemberFenced, GroupProtocolMismatch, SessionTimeoutRefused
from sparkapp.model.job.group_membership import Assignor
from tests.support.jobs.group_job import GroupJob, membership_options
from tests.support.jobs.local_job import ROOT
from tests.support.kafka.group_wire import Impostor

pytestmark = pytest.mark.broker

PARTITIONS = 4
Jobs = Callable[..., GroupJob]


def await_(what: Callable[[], object], why: str, seconds: float = 240) -> None:
    deadline = Deadline.after(seconds)
    while not what():
        assert not deadline.expired, why
        time.sleep(0.02)


class Source:
    """A topic that numbers are written to, some before and some during a test."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.count = 0

    def write(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                number = next(self._numbers)
                self._producer.produce(self.topic, value=str(number), partition=number % PARTITIONS)
            assert self._producer.flush(30) == 0
            self.count += count

    def flow(self) -> None:
        """20 records every 50 ms, until :meth:`end`."""
        self._thread = threading.Thread(target=self._flow)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(60)

    def _flow(self) -> None:
        while not self._ended.wait(0.05):
            self.write(20)

    def committed(self, group: str) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            wanted = [ClientPartition(self.topic, number) for number in range(PARTITIONS)]
            return {each.partition: each.offset for each in consumer.committed(wanted, timeout=20)}
        finally:
            consumer.close()


@pytest.fixture
def source(broker: str, make_topic: Callable[..., str]) -> Iterator[Source]:
    made = Source(broker, make_topic(PARTITIONS, "in"))
    yield made
    made.end()


@pytest.fixture
def jobs(broker: str, source: Source, unique: str) -> Iterator[Jobs]:
    """``jobs(**fields) -> GroupJob``, running; each is stopped at the end, if the test has not done so."""
    made: list[GroupJob] = []

    def make(*, assignor: Assignor = Assignor.RANGE, options: dict[str, Any] | None = None, **fields: Any) -> GroupJob:
        chosen = membership_options(assignor=assignor, **(options or {}))
        made.append(GroupJob(broker, source.topic, unique, options=chosen, **fields).start())
        return made[-1]

    yield make
    for each in made:
        each.stop()


def shared(*members: GroupJob) -> bool:
    """Every partition is somebody's, none is two members', and nobody has none."""
    parts = [each.partitions for each in members]
    return all(parts) and sorted(itertools.chain(*parts)) == list(range(PARTITIONS))


def read_by(*members: GroupJob) -> Counter[int]:
    return Counter(itertools.chain(*(list(each.values) for each in members)))


@pytest.mark.parametrize("assignor", list(Assignor))
def test_two_members_share_the_partitions_and_repeat_nothing(
    jobs: Jobs, source: Source, unique: str, assignor: Assignor
) -> None:
    source.write(200)
    source.flow()
    patient = {"session_timeout_seconds": 30, "max_poll_interval_seconds": 60}
    first = jobs(assignor=assignor, hold=0.3, options=patient)
    await_(lambda: first.partitions == set(range(PARTITIONS)), "the first member got nothing")
    second = jobs(assignor=assignor, hold=0.3, options=patient)
    await_(lambda: shared(first, second), "the second member got no share")
    await_(lambda: len(second.values) > 100, "the second member read nothing")
    second.stop()
    await_(lambda: first.partitions == set(range(PARTITIONS)), "the second member's share did not come back")
    source.end()
    await_(lambda: len(first.values) + len(second.values) >= source.count, "not everything was read", 90)
    assert first.membership.drain(10)
    assert read_by(first, second) == Counter(range(source.count)), "each record once"
    assert sum(source.committed(unique).values()) == source.count
    lost = [each for each in (*first.events, *second.events) if each.startswith("PartitionsLost")]
    assert not lost
    revoked = [each for each in first.events if each.startswith("PartitionsRevoked")]
    kept = "(2 partition" if assignor.cooperative else "(4 partition"
    assert revoked[0].split(": ")[1].startswith(kept[1:]), "a cooperative rebalance takes only what moves"


def test_a_plain_consumer_shares_with_a_job_of_the_default_assignor(
    jobs: Jobs, source: Source, broker: str, unique: str
) -> None:
    source.write(400)
    job = jobs(options={"session_timeout_seconds": 30, "max_poll_interval_seconds": 60})
    await_(lambda: len(job.values) == 400, "the job read nothing")
    consumer = Consumer({"bootstrap.servers": broker, "group.id": unique, "auto.offset.reset": "earliest"})
    consumer.subscribe([source.topic])
    try:
        await_(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "the consumer got no share")
        source.write(400)
        seen: list[int] = []

        def poll() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                seen.append(int(message.value()))
            return len(seen) == 200

        await_(poll, "the plain consumer read nothing")
    finally:
        consumer.close()
    await_(lambda: len(job.values) == 600, "the job did not read its half")
    assert Counter(job.values) + Counter(seen) == Counter(range(800))


def test_a_static_member_that_restarts_within_its_session_moves_nothing(jobs: Jobs, source: Source) -> None:
    static = {"group_instance_id": "job-1", "session_timeout_seconds": 60, "max_poll_interval_seconds": 90}
    first = jobs(options=static)
    other = jobs(options={"group_instance_id": "job-2", "session_timeout_seconds": 60, "max_poll_interval_seconds": 90})
    await_(lambda: shared(first, other), "no share for both")
    before, mine = len(other.events), set(first.partitions)
    first.stop()
    source.write(400)
    again = jobs(options=static)
    await_(lambda: again.partitions == mine, "the restarted member got other partitions")
    await_(lambda: len(read_by(again, other)) == 400, "not everything was read")
    time.sleep(3)
    assert other.events[before:] == [], "the other member saw no rebalance"


def test_a_second_member_of_the_same_instance_id_fences_the_first(jobs: Jobs, source: Source) -> None:
    first = jobs(options={"group_instance_id": "the-same"})
    await_(lambda: len(first.partitions) == PARTITIONS, "no assignment")
    second = jobs(options={"group_instance_id": "the-same"})
    await_(lambda: first.failure is not None, "the first member did not notice")
    assert isinstance(first.failure, GroupMemberFenced)
    assert first.failure.fatal
    assert "groupInstanceId" in first.failure.remedy
    source.write(100)
    await_(lambda: len(second.values) == 100, "the second member does not work")
    assert second.failure is None


def test_a_member_that_is_not_polled_in_time_loses_its_partitions_and_comes_back(
    jobs: Jobs, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    stalled = threading.Event()

    def stall(reason: str) -> None:
        if reason == "PartitionsAssigned" and not stalled.is_set():
            stalled.set()
            time.sleep(9)

    job = jobs(options={"max_poll_interval_seconds": 6}, on_event=stall)
    await_(lambda: len(job.events) >= 3, "it did not come back")
    assert [each.partition(":")[0] for each in job.events[:3]] == [
        "PartitionsAssigned", "PartitionsLost", "PartitionsAssigned"
    ]  # fmt: skip
    source.write(100)
    await_(lambda: set(job.values) == set(range(100)), "it does not work any more")
    assert job.failure is None
    assert "_MAX_POLL_EXCEEDED" in caplog.text


def test_a_checkpoint_that_is_too_slow_for_a_rebalance_gives_its_partitions_up(jobs: Jobs, source: Source) -> None:
    source.write(40)
    first = jobs(hold=5, finish_seconds=1)
    await_(lambda: len(first.partitions) == PARTITIONS, "no assignment")
    second = jobs()
    await_(lambda: any(each.startswith("PartitionsLost") for each in first.events), "nothing was given up")
    await_(lambda: len(read_by(first, second)) == 40, "a record was missed")
    await_(lambda: first.values, "the slow checkpoint was not completed")
    assert first.failure is None


@pytest.mark.parametrize("how", ["illegal generation", "unknown member"])
def test_a_refused_commit_is_counted_and_the_job_continues(
    jobs: Jobs, source: Source, unique: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    source.write(40)
    interfered = threading.Event()

    def interfere(_: list[int]) -> None:
        if interfered.is_set():
            return
        interfered.set()
        impostor = Impostor(source.bootstrap, group=unique, member_id=job.member.member_id, topic=source.topic)
        impostor.rejoin() if how == "illegal generation" else impostor.leave()
        impostor.close()

    begun = threading.Event()
    # Heartbeats would fail before the commit does.
    job = jobs(
        options={"session_timeout_seconds": 30, "heartbeat_interval_seconds": 10, "max_poll_interval_seconds": 60},
        completed=lambda values: (begun.wait(30), interfere(values))[1],
    )
    begun.set()
    await_(lambda: job.commits.failed == 1, "the commit was not refused")
    await_(lambda: any(each.startswith("PartitionsLost") for each in job.events), "the member did not notice")
    source.write(40)
    await_(lambda: set(job.values) == set(range(80)), "a record was missed")
    await_(lambda: sum(source.committed(unique).values()) == 80, "it commits no more", 30)
    assert job.failure is None
    assert job.commits.failed == 1
    assert ("ILLEGAL_GENERATION" if how == "illegal generation" else "UNKNOWN_MEMBER_ID") in caplog.text


def test_assignors_that_do_not_match_are_said_with_the_field(jobs: Jobs) -> None:
    first = jobs(assignor=Assignor.RANGE)
    await_(lambda: len(first.partitions) == PARTITIONS, "no assignment")
    second = jobs(assignor=Assignor.ROUNDROBIN)
    await_(lambda: second.failure is not None, "nothing was said")
    assert isinstance(second.failure, GroupProtocolMismatch)
    assert "spec.source.groupMembership.assignor" in second.failure.remedy
    assert first.failure is None


def test_a_session_timeout_that_the_broker_refuses_is_said_with_the_field(jobs: Jobs) -> None:
    job = jobs(options={"session_timeout_seconds": 3, "heartbeat_interval_seconds": 1})
    await_(lambda: job.failure is not None, "nothing was said")
    assert isinstance(job.failure, SessionTimeoutRefused)
    assert "sessionTimeoutSeconds" in job.failure.remedy


class Process:
    """A :class:`GroupJob` in a process of its own, to be stopped in the middle of a checkpoint."""

    def __init__(self, **fields: object) -> None:
        self.values: list[int] = []
        self.events: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.jobs.group_job", json.dumps(fields)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def freeze(self) -> None:
        identity = Identity.of(self._process.pid)
        assert identity is not None
        assert identity.freeze(20)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(20)
        self._thread.join(20)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            report = json.loads(line)
            self.values.extend(report.get("values", ()))
            self.events.extend([report["event"]] if "event" in report else [])


@pytest.mark.parametrize("assignor", [Assignor.RANGE, Assignor.COOPERATIVE_STICKY])
def test_a_session_that_expires_gives_the_partitions_away(
    jobs: Jobs, source: Source, broker: str, unique: str, assignor: Assignor
) -> None:
    source.write(200)
    frozen = Process(
        bootstrap=broker, topic=source.topic, group=unique, assignor=assignor.value, hold=2.0, max_offsets=40
    )
    try:
        await_(lambda: len(frozen.values) >= 40, "the first member read nothing")
        frozen.freeze()
        other = jobs(assignor=assignor)
        await_(
            lambda: set(frozen.values) | set(other.values) == set(range(200)),
            "the session did not expire, or a record was missed",
        )
        assert other.membership.drain(10)
        await_(lambda: sum(source.committed(unique).values()) == 200, "not committed", 20)
        frozen.thaw()
        await_(lambda: "PartitionsLost" in frozen.events, "the first member did not notice")
        await_(lambda: frozen.events.count("PartitionsAssigned") >= 2, "it did not come back")
        assert sum(source.committed(unique).values()) == 200, "a zombie's commit was accepted"
        more = len(frozen.values)
        source.write(200)
        await_(lambda: set(frozen.values[more:]) | set(other.values) >= set(range(200, 400)), "a record was missed")
    finally:
        frozen.thaw()
        frozen.end()
