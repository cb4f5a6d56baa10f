"""The connections between engine and subtasks: who may connect, and which answers count."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

import pytest

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import SubtaskDisconnected, SubtaskMissing
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.producers.reusable_producers import CommittedTransaction
from sparkapp.source.watermarks.subtask_watermark import NO_LIMIT, NO_WATERMARK, GivenWatermarks, ReachedWatermarks
from sparkapp.spark.engine.continuous import adoptions, control_server
from sparkapp.spark.engine.continuous.adoptions import MOST_LOSSES
from sparkapp.spark.engine.continuous.answers import Silent
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.tasks import control_channel
from sparkapp.spark.tasks.control_channel import SubtaskChannel
from sparkapp.spark.tasks.control_frames import (
    Answer,
    Work,
    barrier_of,
    decode_work,
    encode_barrier,
    encode_stop,
    encode_work,
)
from sparkapp.spark.tasks.write_task import WriteOrder
from tests.support.patience import PATIENCE, until

SPLITS = (
    KafkaPartitionSplit(TopicPartition("in", 0), 5, 9),
    KafkaPartitionSplit(TopicPartition("in.put_ü", 11), 0, 1),
)


def work(checkpoint_id: int, **changes: Any) -> Work:
    order = WriteOrder(
        checkpoint_id=checkpoint_id, subtask=1, next_free=3, settled=checkpoint_id - 1, writes_what_it_reads=True,
        ranges=SPLITS, group_id="g",
    )  # fmt: skip
    return Work(order=replace(order, **changes), splits=SPLITS)


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[ControlServer]:
    made = ControlServer(request.param, silence=2 * PATIENCE)
    yield made
    made.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlServer]:
    """A server whose patience ends soon, and subtasks of the same kind."""
    for module in (control_server, control_channel):
        monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(control_channel, "DRIVER_SILENCE_SECONDS", 1.0)
    made = ControlServer("127.0.0.1", silence=1.0)
    yield made
    made.close()


def plain_connection(server: ControlServer) -> Connection[Any, Any]:
    """A connection that has proven nothing yet."""
    return Connection(socket.create_connection((server.address.host, server.address.port)).detach())


def received(channel: SubtaskChannel) -> Work | None:
    return decode_work(channel.receive_body())


def soon(channel: SubtaskChannel) -> Work | None:
    """The next frame. Where none is sent, beats would come without end."""
    return run_in_background(partial(received, channel), name="receive").result(timeout=PATIENCE)


MARKS = {split.partition: 1_700_000_000_000 for split in SPLITS}
REUSING = replace(work(7), order=replace(work(7).order, reusable={"p-1": CommittedTransaction(3, 9, 1)}))
"""Work whose producer may be used again."""
MARKED = replace(work(7), watermarks=GivenWatermarks(own=NO_WATERMARK, others=NO_LIMIT, partitions=MARKS))


@pytest.mark.parametrize(
    "each",
    [work(7), REUSING, work(1, group_id=None), work(8, ranges=()), MARKED, replace(work(7), limits=(90, 1)).again()],
    ids=["whole", "with a kept producer", "plain", "cut", "watermarks", "open"],
)
def test_work_is_read_as_it_was_written(each: Work) -> None:
    assert decode_work(json.loads(encode_work(each))) == each


def test_a_stop_is_no_work() -> None:
    assert decode_work(json.loads(encode_stop())) is None


def test_a_barrier_ends_an_open_checkpoint_and_a_later_task_gets_the_splits_alone(server: ControlServer) -> None:
    empty = KafkaPartitionSplit(SPLITS[1].partition, 1, 1)
    splits = (SPLITS[0], empty)
    given = replace(work(7, ranges=splits), splits=splits, limits=(90, 80))
    assert given.is_open
    closed = given.closed()
    assert closed == Work(order=replace(given.order, ranges=SPLITS[:1], ends_earlier_try=True), splits=SPLITS[:1])
    server.give({0: work(7), 1: given})
    with SubtaskChannel(server.address, subtask=1, task=10) as early:
        assert received(early) == given.again(), "the server does not know whether a task had it before"
        with SubtaskChannel(server.address, subtask=0, task=11) as answers:
            assert received(answers) == work(7)
            answers.completed(7, "")
            assert server.answer(PATIENCE) is not None
            server.barrier(7, {0: work(7), 1: closed})
            assert barrier_of(early.receive_body()) == 7
            server.give({0: work(8)})
            assert received(answers) == work(8), "no barrier for a subtask that has answered"
        with SubtaskChannel(server.address, subtask=1, task=10) as again:
            assert received(again) == closed


def test_the_barrier_of_a_lost_subtask_reaches_the_subtask_that_does_its_work(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoptions, "ADOPT_SECONDS", 0.0)
    given = replace(work(7), limits=(90, 80))
    with SubtaskChannel(server.address, subtask=0, task=11) as idle:
        with SubtaskChannel(server.address, subtask=1, task=10) as lost:
            server.give({1: given})
            assert received(lost) in (given, given.again())
        until(lambda: 1 not in server.connected)
        server.adopt()
        assert received(idle) == given.again(), "it has nothing else to do before the barrier, either"
        server.barrier(7, {1: given.closed()})
        assert run_in_background(idle.receive_body, name="receive").result(timeout=PATIENCE) == {"barrier": 7}


def test_only_a_barrier_is_a_barrier() -> None:
    assert barrier_of(json.loads(encode_barrier(7))) == 7
    assert [barrier_of(json.loads(frame)) for frame in (encode_stop(), encode_work(work(7)))] == [None, None]


def test_a_subtask_gets_its_work_before_and_after_it_connects(server: ControlServer) -> None:
    server.give({1: work(7)})
    with SubtaskChannel(server.address, subtask=1, task=10) as channel:
        assert received(channel) == work(7)
        channel.completed(7, "done")
        assert server.answer(PATIENCE) == Answer(1, 7, "done", "")
        server.give({1: work(8)})
        assert received(channel) == work(8)
        channel.failed(8, "why")
        assert server.answer(PATIENCE) == Answer(1, 8, "", "why")
        reached = ReachedWatermarks(own=5, partitions=MARKS)
        channel.completed(9, "marked", reached)
        assert server.answer(PATIENCE) == Answer(1, 9, "marked", "", reached)


def test_a_task_that_starts_again_gets_the_orders_without_an_answer(
    server: ControlServer,
) -> None:
    server.give({1: work(7)})
    old = SubtaskChannel(server.address, subtask=1, task=10)
    assert received(old) == work(7)
    with SubtaskChannel(server.address, subtask=1, task=10) as new:
        assert received(new) == work(7)
        with suppress(SubtaskDisconnected):  # the server may have closed the connection already
            old.completed(7, "of the older task")
        with pytest.raises(SubtaskDisconnected):
            received(old)
        new.completed(7, "of the newer task")
        assert server.answer(PATIENCE) == Answer(1, 7, "of the newer task", "")
    with SubtaskChannel(server.address, subtask=1, task=10) as third:
        server.give({1: work(8)})
        assert received(third) == work(8), "checkpoint 7 was answered"


def test_a_signal_whose_handler_outlasts_the_wait_for_an_answer_ends_the_wait(
    server: ControlServer, request: pytest.FixtureRequest
) -> None:
    """A drain begins with SIGTERM, whose handler runs in the thread that waits."""
    handled = signal.signal(signal.SIGUSR1, lambda *_: time.sleep(0.3))
    request.addfinalizer(partial(signal.signal, signal.SIGUSR1, handled))
    late = Answer(1, 7, "late", "")
    timers = [
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)),
        threading.Timer(PATIENCE, server._answers.put, (late,)),
    ]
    for timer in timers:
        timer.start()
    assert server.answer(0.1) is None
    for timer in timers:
        timer.cancel()


def test_work_is_withdrawn_until_a_subtask_has_been_connected(server: ControlServer) -> None:
    server.give({1: work(7)})
    assert server.withdraw()
    with SubtaskChannel(server.address, subtask=1, task=0) as channel:
        until(lambda: server.ready == {1})
        server.give({1: work(8)})
        assert received(channel) == work(8), "and not the work that was taken back"
    until(lambda: not server.ready)
    server.give({1: work(9)})
    assert not server.withdraw(), "it may have written"


def test_a_stop_reaches_every_subtask(server: ControlServer) -> None:
    with SubtaskChannel(server.address, subtask=0, task=7) as first:
        server.give({0: work(7)})
        assert received(first) == work(7)
        first.completed(7, "")
        assert server.answer(PATIENCE) is not None
        server.stop()
        assert server.unconfirmed == {0}
        assert received(first) is None
        first.stopped("")
        assert server.answer(PATIENCE) == Answer(0, None, "", "")
    with SubtaskChannel(server.address, subtask=1, task=10) as late:
        assert received(late) is None, "it connects when the engine has stopped"


def test_tasks_of_an_earlier_wave_end_and_a_later_wave_gets_the_work(server: ControlServer) -> None:
    with SubtaskChannel(server.address, subtask=1, task=10) as early:
        server.give({1: work(7)})
        assert received(early) == work(7)
        early.completed(7, "")
        assert server.answer(PATIENCE) is not None
        server.end([1], wave=1)
        assert received(early) is None
        with SubtaskChannel(server.address, subtask=1, task=11) as again:
            assert received(again) is None, "Spark has started the same task again"
        with SubtaskChannel(server.address, subtask=1, task=12, wave=1) as late:
            server.give({1: work(8)})
            assert received(late) == work(8)


def test_an_idle_subtask_does_the_work_of_a_lost_subtask(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoptions, "ADOPT_SECONDS", 0.0)
    with SubtaskChannel(server.address, subtask=0, task=7) as other:
        with SubtaskChannel(server.address, subtask=1, task=10) as lost:
            server.give({0: work(7), 1: work(7)})
            assert (received(other), received(lost)) == (work(7), work(7))
        until(lambda: 1 not in server.connected)
        assert server.lost(0.0) == {1}
        server.adopt()
        other.completed(7, "its own", subtask=0)
        assert server.answer(PATIENCE) == Answer(0, 7, "its own", "")
        server.adopt()
        assert server.writers == {0, 1}
        assert server.lost(0.0) == set(), "another writes for it"
        assert received(other) == work(7)
        with SubtaskChannel(server.address, subtask=1, task=11) as again:
            again.completed(7, "nobody asked for")
            other.completed(7, "the lost subtask's", subtask=1)
            assert server.answer(PATIENCE) == Answer(1, 7, "the lost subtask's", "")
            server.give({1: work(8)})
            assert received(again) == work(8)


def test_an_idle_subtask_does_the_work_of_a_subtask_that_has_never_connected(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for a single executor. Its transaction would hold back the readers until its time-out."""
    monkeypatch.setattr(adoptions, "START_SECONDS", 0.0)
    with SubtaskChannel(server.address, subtask=0, task=7) as adopter:
        server.give({0: work(7), 1: work(7)})
        assert received(adopter) == work(7)
        adopter.completed(7, "its own", subtask=0)
        assert server.answer(PATIENCE) == Answer(0, 7, "its own", "")
        server.adopt()
        assert soon(adopter) == work(7)
        assert server.writers == {0, 1}
        with SubtaskChannel(server.address, subtask=1, task=8) as late:
            until(lambda: 1 in server.connected)
            adopter.completed(7, "the other's", subtask=1)
            assert server.answer(PATIENCE) == Answer(1, 7, "the other's", "")
            server.give({1: work(8)})
            assert soon(late) == work(8), "nothing of checkpoint 7"


def test_work_of_a_lost_adopter_goes_back_or_on(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoptions, "ADOPT_SECONDS", 0.0)
    with SubtaskChannel(server.address, subtask=0, task=7) as adopter:
        with SubtaskChannel(server.address, subtask=1, task=10) as lost:
            server.give({1: work(7)})
            assert received(lost) == work(7)
        until(lambda: 1 not in server.connected)
        server.adopt()
        assert received(adopter) == work(7)
        again = SubtaskChannel(server.address, subtask=1, task=11)
        until(lambda: 1 in server.connected)
    assert received(again) == work(7)
    again.completed(7, "after all")
    assert server.answer(PATIENCE) == Answer(1, 7, "after all", "")
    again.__exit__()


def test_work_of_an_adopter_whose_next_task_connects_first_goes_on(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node of the adopter is cut off, and its connection still stands."""
    monkeypatch.setattr(adoptions, "ADOPT_SECONDS", 0.0)
    cut_off = SubtaskChannel(server.address, subtask=0, task=7)
    with SubtaskChannel(server.address, subtask=1, task=10) as lost:
        server.give({1: work(7)})
        assert received(lost) == work(7)
    until(lambda: 1 not in server.connected)
    server.adopt()
    assert received(cut_off) == work(7)
    with SubtaskChannel(server.address, subtask=0, task=8) as again:
        with pytest.raises(SubtaskDisconnected):
            soon(cut_off)
        server.adopt()
        assert soon(again) == work(7)
        again.completed(7, "at last", subtask=1)
        assert server.answer(PATIENCE) == Answer(1, 7, "at last", "")
    cut_off.__exit__()


def test_a_task_that_is_asked_to_end_takes_no_work_along(server: ControlServer) -> None:
    """It still sends what it has when the next wave's task of its subtask is given work."""
    with SubtaskChannel(server.address, subtask=1, task=10) as ending:
        until(lambda: 1 in server.connected)
        server.end([1], wave=1)
        assert received(ending) is None
        assert (server.connected, server.ready, server.ending) == ({1}, set(), {1})
        with SubtaskChannel(server.address, subtask=1, task=12, wave=1) as new:
            server.give({1: work(7)})
            assert soon(new) == work(7)
            assert (server.ready, server.ending) == ({1}, {1})
            ending.stopped("a record was not sent")
            assert server.answer(PATIENCE) == Answer(1, None, "", "a record was not sent")
            ending.__exit__()
            while server.ending:
                time.sleep(0.01)
            new.completed(7, "done")
            assert server.answer(PATIENCE) == Answer(1, 7, "done", "")


def test_work_given_while_the_next_task_is_lost_waits_for_it_or_is_adopted(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoptions, "ADOPT_SECONDS", 0.0)
    with (
        SubtaskChannel(server.address, subtask=0, task=7) as other,
        SubtaskChannel(server.address, subtask=1, task=10) as ending,
    ):
        while server.connected != {0, 1}:
            time.sleep(0.01)
        server.end([1], wave=1)
        assert received(ending) is None
        server.give({1: work(7)})
        ending.stopped("")
        assert server.answer(PATIENCE) == Answer(1, None, "", "")
        server.adopt()
        assert soon(other) == work(7)


def test_an_adopter_is_asked_to_end_behind_the_work_that_it_does(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task that did the work meanwhile would compete with it."""
    monkeypatch.setattr(adoptions, "ADOPT_SECONDS", 0.0)
    with SubtaskChannel(server.address, subtask=1, task=10) as adopter:
        with SubtaskChannel(server.address, subtask=0, task=7) as lost:
            server.give({0: work(7)})
            assert received(lost) == work(7)
        while server.connected != {1}:
            time.sleep(0.01)
        server.adopt()
        assert soon(adopter) == work(7)
        assert not server.end([1, 2], wave=1)
        assert server.ready == {1}
        adopter.completed(7, "the lost subtask's", subtask=0)
        assert server.answer(PATIENCE) == Answer(0, 7, "the lost subtask's", "")
        assert server.end([1, 2], wave=1)
        assert soon(adopter) is None
        server.give({0: work(8)})
        server.adopt()
        assert 0 not in server.writers, "it adopts nothing any more"


def test_executors_of_the_connected_subtasks(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_EXECUTOR_ID", "4")
    server.give({0: work(7)})
    with SubtaskChannel(server.address, subtask=0, task=7) as channel:
        assert received(channel) == work(7)
        assert server.executors == {"4"}


def test_nobody_without_the_key_is_given_work(server: ControlServer) -> None:
    stranger = replace(server.address, key=b"guess")
    server.give({1: work(7)})
    with pytest.raises(SubtaskDisconnected):
        SubtaskChannel(stranger, subtask=1, task=10)
    plain = plain_connection(server)
    plain.send_bytes(b'{"ready": 1, "task": 10, "wave": 0, "executor": ""}')
    plain.recv_bytes()  # the challenge
    assert b"FAILURE" in plain.recv_bytes()
    with pytest.raises((EOFError, OSError)):
        plain.recv_bytes()


def test_a_frame_that_cannot_be_read_ends_its_connection_alone(server: ControlServer) -> None:
    broken = plain_connection(server)
    answer_challenge(broken, server.address.key)
    deliver_challenge(broken, server.address.key)
    broken.send_bytes(b"[")
    with pytest.raises((EOFError, OSError)):
        broken.recv_bytes()
    server.give({1: work(7)})
    with SubtaskChannel(server.address, subtask=1, task=10) as channel:
        assert received(channel) == work(7)


def test_losses_and_silences_are_counted_but_no_end_that_was_asked_for(quick: ControlServer) -> None:
    for _ in range(MOST_LOSSES - 2):
        with SubtaskChannel(quick.address, subtask=0, task=7):
            until(lambda: 0 in quick.connected)
        until(lambda: 0 not in quick.connected)
    assert quick.losses.taken() == {0}
    silent = plain_connection(quick)
    answer_challenge(silent, quick.address.key)
    deliver_challenge(silent, quick.address.key)
    silent.send_bytes(b'{"ready": 0, "task": 8, "wave": 0, "executor": ""}')
    assert quick.answer(PATIENCE) is None
    assert quick.silent() == [Silent(0, 8)]
    assert quick.losses.taken() == {0}
    with SubtaskChannel(quick.address, subtask=0, task=9) as asked:
        until(lambda: 0 in quick.connected)
        assert quick.end([0], wave=1)
        asked.stopped("")
    until(lambda: 0 not in quick.connected)
    assert quick.losses.taken() == set()
    quick.losses.require_few()
    with SubtaskChannel(quick.address, subtask=0, task=10, wave=1):
        until(lambda: 0 in quick.connected)
    until(lambda: 0 not in quick.connected)
    with pytest.raises(SubtaskMissing):
        quick.losses.require_few()


def test_losses_are_those_before_the_stop(server: ControlServer) -> None:
    """The others were asked to end: they have confirmed it, or are unconfirmed."""
    with (
        SubtaskChannel(server.address, subtask=0, task=7) as ended,
        SubtaskChannel(server.address, subtask=1, task=8) as killed,
    ):
        with SubtaskChannel(server.address, subtask=2, task=9):
            until(lambda: server.connected == {0, 1, 2})
        until(lambda: server.connected == {0, 1})
        server.stop()
        assert (received(ended), received(killed)) == (None, None)
        ended.stopped("")
    until(lambda: not server.connected)
    assert server.unconfirmed == {1}
    assert server.losses.taken() == {2}


def test_a_silent_subtask_is_disconnected_and_its_successor_is_given_its_work(quick: ControlServer) -> None:
    frozen = plain_connection(quick)
    answer_challenge(frozen, quick.address.key)
    deliver_challenge(frozen, quick.address.key)
    frozen.send_bytes(b'{"ready": 1, "task": 10, "wave": 0, "executor": ""}')
    with SubtaskChannel(quick.address, subtask=0, task=7) as other:
        quick.give({1: work(7)})
        assert quick.answer(PATIENCE) is None, "the wait ends with the silence"
        assert quick.silent() == [Silent(1, 10)]
        assert quick.silent() == []
        with SubtaskChannel(quick.address, subtask=1, task=11) as new:
            assert received(new) == work(7)
        with suppress(OSError):  # it thaws, and nobody hears it
            frozen.send_bytes(b'{"subtask": 1, "checkpoint_id": 7, "result": "of the frozen task"}')
        assert quick.answer(0.2) is None
        assert 0 in quick.connected, "a subtask without work is not silent"
        quick.give({0: work(8)})
        assert received(other) == work(8), "it did not lose the driver, either"


def test_a_subtask_does_not_wait_for_a_silent_driver(quick: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControlServer, "_beat", lambda _: None)
    silent = ControlServer("127.0.0.1")
    with (
        SubtaskChannel(silent.address, subtask=1, task=10) as channel,
        pytest.raises(SubtaskDisconnected, match="silent"),
    ):
        received(channel)
    silent.close()


def test_a_closed_server_ends_its_subtasks(server: ControlServer) -> None:
    server.give({1: work(7)})
    with SubtaskChannel(server.address, subtask=1, task=10) as channel:
        assert received(channel) == work(7)
        server.close()
        with pytest.raises(SubtaskDisconnected):
            received(channel)


def test_a_subtask_that_writes_is_told_that_nobody_waits_for_its_answer(quick: ControlServer) -> None:
    lost = threading.Event()
    with SubtaskChannel(quick.address, subtask=1, task=10, lost=lost.set):
        quick.close()
        assert lost.wait(PATIENCE)


def test_a_closed_server_ends_connections_whose_handshake_is_under_way(server: ControlServer) -> None:
    with plain_connection(server) as joining:
        joining.recv_bytes(control_channel.MAX_FRAME)  # the server's challenge
        server.close()
        with pytest.raises(EOFError):
            run_in_background(joining.recv_bytes, name="receive").result(timeout=PATIENCE)


def test_a_closed_server_ends_connections_of_subtasks_that_came_after_the_stop(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_channel, "DRIVER_SILENCE_SECONDS", 2 * PATIENCE)
    server.stop()
    with SubtaskChannel(server.address, subtask=1, task=10) as late:
        assert received(late) is None
        server.close()
        with pytest.raises(SubtaskDisconnected):
            run_in_background(late.receive_body, name="receive").result(timeout=PATIENCE)


def test_a_connection_that_could_not_be_accepted_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux tells accept() the errors of a network that just went away, and a process may be out of files."""
    failures, accept = [ConnectionAbortedError(), OSError(errno.EMFILE, "too many open files")], socket.socket.accept

    def failing_first(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", failing_first)
    server = ControlServer("127.0.0.1")
    server.give({1: work(7)})
    with SubtaskChannel(server.address, subtask=1, task=10) as channel:
        assert soon(channel) == work(7)
    server.close()


def test_a_subtask_whose_thread_waits_for_frames_ends_its_connection_without_a_beat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (control_server, control_channel):
        monkeypatch.setattr(module, "BEAT_SECONDS", 2 * PATIENCE)
    server = ControlServer("127.0.0.1", silence=2 * PATIENCE)
    with SubtaskChannel(server.address, subtask=1, task=10) as channel:
        waiting = run_in_background(channel.receive_body, name="receive")
        until(lambda: 1 in server.connected)
    with pytest.raises(SubtaskDisconnected):
        waiting.result(timeout=PATIENCE)
    until(lambda: not server.connected)
    server.close()


def test_another_try_uses_no_producer_again() -> None:
    """A new producer ends the try before."""
    is_open = replace(REUSING, limits=(90, 1))
    assert is_open.again().order.reusable is None
    assert is_open.closed().order.reusable is None
