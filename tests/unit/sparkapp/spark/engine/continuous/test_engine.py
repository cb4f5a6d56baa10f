"""The end of the continuous engine: every subtask confirms that its records were sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import PreCommitFailed, SubtaskMissing
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.spec import Engine, Job
from sparkapp.spark.engine.continuous import engine as module
from sparkapp.spark.engine.continuous import pipeline
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.engine import ContinuousEngine
from sparkapp.spark.engine.interface import EngineParts
from sparkapp.spark.failures import printed
from sparkapp.spark.tasks.control_channel import Address, SubtaskChannel
from sparkapp.spark.tasks.control_frames import decode_work
from tests.support.jobs.plain_job import plain_spec
from tests.support.patience import PATIENCE

PARALLELISM = 2
LastWords = Callable[[SubtaskChannel, int], None]


class Subtasks:
    """Spark's job at its end.

    :param last_words: what a subtask says when it is asked to end.
    :param ends_first: whether the job counts as ended while the subtasks' last answers are on their way.
    """

    count = PARALLELISM

    def __init__(self, address: Address, last_words: LastWords, *, ends_first: bool) -> None:
        self.last_words = last_words
        self.ends_first = ends_first
        self.threads = [
            threading.Thread(target=self.run, args=(SubtaskChannel(address, subtask=subtask, task=subtask), subtask))
            for subtask in range(PARALLELISM)
        ]
        for thread in self.threads:
            thread.start()

    @property
    def ended(self) -> bool:
        return self.ends_first or not any(thread.is_alive() for thread in self.threads)

    def run(self, channel: SubtaskChannel, subtask: int) -> None:
        with channel:
            assert decode_work(channel.receive_body()) is None
            self.last_words(channel, subtask)

    def failure(self) -> None:
        return None

    def cancel(self) -> None:
        """The tasks have ended."""


def engine_of(
    guarantee: DeliveryGuarantee, fence: Callable[[Collection[str]], None] = lambda _: None
) -> ContinuousEngine:
    sink = Sink(topic="out", transactional_id_prefix="p", delivery_guarantee=guarantee)
    job = Job(
        namespace="n", name="job", uid="uid", generation=1, attempt=2,
        spec=plain_spec(sink=sink, parallelism=PARALLELISM, engine=Engine.CONTINUOUS),
    )  # fmt: skip
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))
    fakes: Any = {"enumerator": SimpleNamespace(finished=False), "coordinator": SimpleNamespace(job=job)}
    parts: EngineParts[Any] = EngineParts(spark=spark, completed=lambda *_: None, **fakes)
    unused: Any = None
    return ContinuousEngine(parts, fence=fence, announcements=unused, scale=lambda: None, report=lambda **_: None)


class Stop(Protocol):
    """See :func:`stopped`."""

    def __call__(
        self,
        guarantee: DeliveryGuarantee,
        last_words: LastWords,
        *,
        ends_first: bool = True,
        before: Callable[[ControlServer], None] = ...,
        between: Callable[[], None] = ...,
    ) -> None: ...


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Stops an engine whose subtasks end as the test says; ``before`` is called when they are connected.

    ``between`` is called where the attempt writes the document.
    """

    def stop(
        guarantee: DeliveryGuarantee,
        last_words: LastWords,
        *,
        ends_first: bool = True,
        before: Callable[[ControlServer], None] = lambda _: None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        servers: list[ControlServer] = []

        def server(host: str) -> ControlServer:
            servers.append(ControlServer(host))
            return servers[-1]

        monkeypatch.setattr(module, "ControlServer", server)
        monkeypatch.setattr(
            module, "Subtasks", lambda _, *, spark, address: Subtasks(address, last_words, ends_first=ends_first)
        )
        engine = engine_of(guarantee)
        connected = threading.Event()
        while len(servers[0].connected) < PARALLELISM:
            connected.wait(0.01)
        before(servers[0])
        engine.drain()
        engine.await_end()
        between()
        engine.close()

    return stop


def test_a_failure_that_arrives_after_the_end_of_sparks_job_is_reported(
    stopped: Stop,
) -> None:
    def last_words(channel: SubtaskChannel, subtask: int) -> None:
        channel.stopped(printed(PreCommitFailed("1 records failed")) if subtask else "")

    with pytest.raises(PreCommitFailed, match="1 records failed"):
        stopped(DeliveryGuarantee.NONE, last_words)


def test_a_subtask_that_says_nothing_may_have_lost_records(
    stopped: Stop,
) -> None:
    def last_words(channel: SubtaskChannel, subtask: int) -> None:
        if not subtask:
            channel.stopped("")

    with pytest.raises(PreCommitFailed, match=r"subtasks \[1\] did not confirm"):
        stopped(DeliveryGuarantee.NONE, last_words)
    stopped(DeliveryGuarantee.EXACTLY_ONCE, last_words)


def test_a_job_of_spark_that_has_ended_is_not_waited_for(stopped: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("the engine waits"))
    stopped(DeliveryGuarantee.EXACTLY_ONCE, lambda channel, _: channel.stopped(""))


def test_the_document_is_written_while_tasks_end_that_have_answered(stopped: Stop) -> None:
    document_written, seen = threading.Event(), []

    def last_words(channel: SubtaskChannel, _: int) -> None:
        channel.stopped("")
        seen.append(document_written.wait(PATIENCE))

    stopped(DeliveryGuarantee.EXACTLY_ONCE, last_words, ends_first=False, between=document_written.set)
    assert seen == [True] * PARALLELISM, "the engine waits for the tasks behind the document"


def test_the_end_of_tasks_without_a_last_answer_is_waited_for(stopped: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may still open a producer for the checkpoint that never comes."""
    monkeypatch.setattr(module, "_END_SECONDS", 0.3)
    monkeypatch.setattr(Subtasks, "ended", False)
    times = [time.monotonic()]

    def last_words(channel: SubtaskChannel, subtask: int) -> None:
        if subtask:
            channel.stopped("")

    stopped(DeliveryGuarantee.EXACTLY_ONCE, last_words, between=lambda: times.append(time.monotonic()))
    assert times[1] - times[0] >= 0.3


def test_the_next_task_of_a_subtask_confirms_nothing_that_the_lost_one_wrote(stopped: Stop) -> None:
    """The worker is lost while it sends its last records, and Spark starts its task again."""
    addresses: list[Address] = []
    next_has_ended = threading.Event()

    def last_words(channel: SubtaskChannel, subtask: int) -> None:
        if subtask:
            channel.__exit__()
            with SubtaskChannel(addresses[0], subtask=subtask, task=9) as again:
                assert decode_work(again.receive_body()) is None
                again.stopped("")
            next_has_ended.set()
        else:
            assert next_has_ended.wait(PATIENCE)
            channel.stopped("")

    with pytest.raises(PreCommitFailed, match=r"subtasks \[1\] did not confirm"):
        stopped(
            DeliveryGuarantee.NONE, last_words, ends_first=False,
            before=lambda server: addresses.append(server.address),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("late", "why"), [("1 records failed", "1 records failed"), ("", r"subtasks \[1\] did not confirm")]
)
def test_a_task_that_a_rescale_has_ended_is_heard_at_the_end(stopped: Stop, late: str, why: str) -> None:
    """From two subtasks to one and back: the old task of a subtask still sends its records when the new one stops."""
    new_has_ended = threading.Event()

    def new_task(channel: SubtaskChannel) -> None:
        with channel:
            assert decode_work(channel.receive_body()) is None
            channel.stopped("")
        new_has_ended.set()

    def rescale(server: ControlServer) -> None:
        assert server.end([1], wave=1)
        channel = SubtaskChannel(server.address, subtask=1, task=9, wave=1)
        threading.Thread(target=new_task, args=(channel,)).start()
        while server.ready != {0, 1}:
            time.sleep(0.01)

    def last_words(channel: SubtaskChannel, subtask: int) -> None:
        if subtask:
            assert new_has_ended.wait(PATIENCE)
            time.sleep(0.3)
        if late or not subtask:
            channel.stopped(printed(PreCommitFailed(late)) if subtask else "")

    with pytest.raises(PreCommitFailed, match=why):
        stopped(DeliveryGuarantee.NONE, last_words, before=rescale)


def test_a_task_that_never_had_a_place_does_not_hold_up_a_stop(stopped: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rescale was asked for and taken back before there was room for it: Spark's job of the added tasks waits on."""
    monkeypatch.setattr(module, "_END_SECONDS", 0.2)
    monkeypatch.setattr(Subtasks, "ended", False)
    began = time.monotonic()
    stopped(DeliveryGuarantee.EXACTLY_ONCE, lambda channel, _: channel.stopped(""))
    assert time.monotonic() - began < 10, "the seconds of a stop"


def test_a_stop_ends_although_nobody_can_complete_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """No executor replaces those that are lost. Only an error ends what is open, and what subtasks had begun."""
    monkeypatch.setattr(pipeline, "LOST_SECONDS", 0.2)
    subtasks = SimpleNamespace(ended=False, count=PARALLELISM, cancel=lambda: None)
    monkeypatch.setattr(module, "Subtasks", lambda *_, **__: subtasks)
    engine: Any = engine_of(DeliveryGuarantee.EXACTLY_ONCE)
    monkeypatch.setattr(engine._server, "withdraw", lambda: False)
    engine.executors = SimpleNamespace(count=lambda: None)
    engine._pace._rescaling.places = SimpleNamespace(check=lambda: None)
    engine._pace._pipeline._running = SimpleNamespace(
        checkpoint_id=7, writing={1}, is_open=False, is_pre_committed=False, has_pre_committed=True,
        barrier=lambda: None,
    )  # fmt: skip
    engine._server._executors[1] = "1"  # it was connected, and may have left a transaction open
    engine.drain()
    ended = run_in_background(engine.await_end, name="engine")
    with pytest.raises(SubtaskMissing):
        ended.result(timeout=PATIENCE)


class LivePace:
    """Two subtasks, of which each lost subtask may have transactions open under these ids."""

    parallelism, awaits_place = PARALLELISM, False
    places = SimpleNamespace(check=lambda: None)

    def __init__(self, ids: list[str]) -> None:
        self._ids = ids

    def ids_of(self, _: int) -> list[str]:
        return self._ids


@pytest.mark.parametrize("ids", [["p-1"], []])
def test_what_a_lost_subtask_has_open_is_ended(monkeypatch: pytest.MonkeyPatch, ids: list[str]) -> None:
    """Without transactions a subtask has no ids."""
    monkeypatch.setattr(module, "LOST_SECONDS", 0.2)
    monkeypatch.setattr(module, "Subtasks", lambda *_, **__: SimpleNamespace(ended=False))
    fenced: list[list[str]] = []
    engine: Any = engine_of(DeliveryGuarantee.EXACTLY_ONCE, lambda found: fenced.append(list(found)))
    engine._pace, server = LivePace(ids), engine._server
    with SubtaskChannel(server.address, subtask=0, task=0):
        with SubtaskChannel(server.address, subtask=1, task=1):
            while server.connected != {0, 1}:
                time.sleep(0.01)
        engine._require_subtasks()
        while server.lost(0.2) != {1}:
            time.sleep(0.01)
        for _ in range(3):
            engine._require_subtasks()
            time.sleep(0.1)
    server.close()
    assert fenced == ([ids] if ids else [])
