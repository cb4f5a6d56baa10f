"""Calls in daemon threads: again and again, whatever one of them raises, and none after the end."""

from __future__ import annotations

import threading
import time

import pytest

from sparkapp.clients.daemon_thread import PeriodicThread
from tests.support.patience import PATIENCE

TICK = 0.001


def test_a_call_that_raises_is_logged_and_followed_by_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    calls, again = [], threading.Event()

    def call() -> None:
        calls.append(threading.current_thread())
        if len(calls) == 1:
            raise RuntimeError("the first one")
        again.set()

    thread = PeriodicThread(call, name="clock", interval=TICK, patience=PATIENCE)
    thread.start()
    assert again.wait(PATIENCE)
    thread.close()
    assert (calls[0].name, calls[0].daemon) == ("clock", True)
    assert ("clock failed" in caplog.text, "the first one" in caplog.text) == (True, True)


def test_the_end_waits_for_the_call_under_way_and_none_begins_after_it() -> None:
    begun, ended = threading.Event(), []

    def call() -> None:
        begun.set()
        time.sleep(0.05)
        ended.append(1)

    thread = PeriodicThread(call, name="clock", interval=TICK, patience=PATIENCE)
    thread.start()
    assert begun.wait(PATIENCE)
    thread.close()
    assert ended
    count = len(ended)
    time.sleep(0.1)
    assert len(ended) == count


def test_a_call_that_hangs_is_given_up_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    begun, free = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        free.wait(PATIENCE)

    thread = PeriodicThread(call, name="clock", interval=TICK, patience=0.01)
    thread.start()
    assert begun.wait(PATIENCE)
    thread.close()
    assert "clock did not end in time" in caplog.text
    free.set()


def test_a_call_may_end_its_own_thread() -> None:
    calls: list[int] = []
    ended = threading.Event()

    def call() -> None:
        calls.append(1)
        thread.close()
        ended.set()

    thread = PeriodicThread(call, name="clock", interval=TICK, patience=PATIENCE)
    thread.start()
    assert ended.wait(PATIENCE)
    time.sleep(0.05)
    assert calls == [1]


def test_a_thread_that_was_never_started_ends_at_once() -> None:
    PeriodicThread(lambda: None, name="clock", interval=TICK).close()


def test_the_first_call_can_wait_and_an_end_comes_before_it() -> None:
    called = threading.Event()
    thread = PeriodicThread(called.set, name="clock", interval=TICK, patience=PATIENCE)
    thread.start(after=TICK)
    assert called.wait(PATIENCE)
    thread.close()
    called.clear()
    thread = PeriodicThread(called.set, name="clock", interval=TICK, patience=PATIENCE)
    thread.start(after=PATIENCE)
    thread.close()
    assert not called.is_set()
