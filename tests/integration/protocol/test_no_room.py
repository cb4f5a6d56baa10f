"""Subtasks without a place to run at, since the start or for ever: nothing stays open, every record is there once."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.model.errors import SubtaskMissing
from sparkapp.model.job.spec import Engine
from sparkapp.sink.ending.transaction_control import leave_nothing_open
from sparkapp.spark.engine.continuous import adoptions, pipeline
from sparkapp.spark.engine.continuous.control_server import ControlServer
from tests.integration.protocol.conftest import Stories
from tests.integration.protocol.test_orphans import control_of
from tests.support.protocol.continuous_run import ContinuousRun
from tests.support.protocol.moments import Ahead, Loss, Moment, TaskMoment

POOL = 3
EVERY_PRE_COMMITTED = Ahead(Moment.AFTER_FLUSH, None)
_SECONDS = 60.0


@pytest.fixture
def story(story: Stories) -> Stories:
    """Stories of the continuous engine."""
    return partial(story, engine=Engine.CONTINUOUS)


class Room:
    """Executors for subtask 0 alone, until :meth:`add`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._start = ContinuousRun._start_wave
        self._runs: list[ContinuousRun] = []
        monkeypatch.setattr(adoptions, "START_SECONDS", 0.5)
        monkeypatch.setattr(ContinuousRun, "_start_wave", lambda run, _: self._start_first(run))

    def _start_first(self, run: ContinuousRun) -> None:
        self._runs.append(run)
        self._start(run, [0])

    def add(self) -> None:
        self._start(self._runs[-1], [1])

    def add_while_0_stands_still(self) -> None:
        run = self._runs[-1]
        run._subtasks[0].freeze()
        self.add()

        def thaw() -> None:
            end = time.monotonic() + _SECONDS
            while 1 not in run._server.connected and time.monotonic() < end:
                time.sleep(0.01)
            run._subtasks[0].thaw()

        threading.Thread(target=thaw).start()


@pytest.mark.parametrize("opens_ahead", [True, False])
@pytest.mark.parametrize("late", ["between two checkpoints", "while the adopter writes"])
def test_a_subtask_that_has_no_place_at_the_start_is_adopted_until_it_comes(
    late: str, opens_ahead: bool, story: Stories, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, adopt = Room(monkeypatch), ControlServer.adopt
    job = story(opens_ahead=opens_ahead)
    job.produce(120)
    job.start(2, POOL + 2 * opens_ahead)
    job.checkpoint()
    assert job.document.checkpoint_id == 1
    job.checkpoint(ahead=EVERY_PRE_COMMITTED)
    job.produce(120)
    if late == "between two checkpoints":
        room.add()
    else:

        def adopt_and_connect(server: ControlServer) -> None:
            adopt(server)
            if 1 in server._adoptions.adopted:
                monkeypatch.setattr(ControlServer, "adopt", adopt)
                room.add_while_0_stands_still()

        monkeypatch.setattr(ControlServer, "adopt", adopt_and_connect)
    for _ in range(3):
        job.checkpoint(ahead=EVERY_PRE_COMMITTED)
        job.produce(60)
    assert (job.attempts, job.failures) == (1, [])
    assert isinstance(job._run, ContinuousRun)
    assert job._run._server.connected == {0, 1}
    job.finish(2)


@pytest.mark.parametrize("moment", list(TaskMoment))
def test_what_is_pre_committed_and_cannot_be_completed_is_aborted(
    moment: TaskMoment, story: Stories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_PRE_COMMITTED_SECONDS", 1.0)
    job = story()
    job.produce(120)
    job.start(2, POOL)
    job.checkpoint()
    job.produce(120)
    run = job._run
    assert isinstance(run, ContinuousRun)

    def lose_all() -> Loss:
        run._away.update(run._subtasks)
        return Loss.EXECUTOR

    job.checkpoint((moment, lose_all))
    assert isinstance(job.failure, SubtaskMissing)
    assert job.open_transactions(), "they hold back the readers"
    claim = Claim(run.store, job_uid=run.job.uid, attempt=run.job.attempt)
    leave_nothing_open(control_of(run), claim, run.document, job.failure)
    assert job.open_transactions() == []
    job.start(2, POOL)
    job.checkpoint(ahead=EVERY_PRE_COMMITTED)
    job.finish(2)
    assert [type(failure) for failure in job.failures] == [SubtaskMissing]
