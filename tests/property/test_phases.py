"""Each phase of a job ends: by a deadline that the operator enforces, by a time without progress, or from outside."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, rule

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.lifecycle.target import TargetCause
from kafkasparkjob_operator.decisions.running import SLOW_STOP_SECONDS
from kafkasparkjob_operator.identity import ANNOTATION_PAUSE
from kafkasparkjob_operator.status.phases import TRANSITIONS, Actor, Bound, Phase, Transition, transition_of
from tests.property.test_operator_story import JobStory
from tests.support.kubernetes.operator_fixture import KEY

BY_KUBERNETES = {Phase.STOPPING, Phase.WAITING}
"""The kubelet ends them at the deadline; where it does not, the operator says so some time later."""


class PhaseStory(JobStory):
    """As a job's story; its phases are judged after each step, and sometimes nobody acts until a phase's end."""

    @invariant()
    def each_phase_has_an_end(self) -> None:
        status = self.operator_fixture.status
        if not status.get("state"):
            return
        phase, row = status["phase"], self._transition(status)
        assert parse_time(phase["since"]) is not None
        assert phase["awaits"] in set(Actor)
        if row.bound is Bound.DEADLINE:
            assert parse_time(phase.get("deadline")) is not None, phase
        else:
            assert row.bound is Bound.OUTSIDE or row.seconds

    @invariant()
    def the_target_is_what_the_resource_asks_for(self) -> None:
        status, job = self.operator_fixture.status, self.operator_fixture.kubernetes.job(KEY)
        target = status.get("target")
        if target is None or self._paused() or status.get("observedGeneration") != job["metadata"]["generation"]:
            return
        assert target["cause"] in set(TargetCause)
        if job["spec"].get("suspend"):
            assert target["cause"] == TargetCause.SUSPENDED
        if not self.operator_fixture.refusal and job["spec"]["sink"]["topic"] != "orders":
            assert target["parallelism"] == job["spec"]["parallelism"]

    @rule()
    def nobody_acts_until_the_phase_ends(self) -> None:
        self.operator_looks(4)
        status = self.operator_fixture.status
        row = self._transition(status)
        if self._paused() or row.bound is Bound.OUTSIDE:
            return
        if row.bound is Bound.DEADLINE:
            end = parse_time(status["phase"]["deadline"])
            assert isinstance(end, datetime)
            left = (end - self.operator_fixture.now).total_seconds()
        else:
            left = row.seconds or 0.0
        late = SLOW_STOP_SECONDS if row.phase in BY_KUBERNETES else 0
        before = self._position(status)
        self.operator_fixture.wait(max(left, 0.0) + late + 1)
        self.operator_looks(4)
        assert self._position(self.operator_fixture.status) != before, status["phase"]

    def _transition(self, status: dict[str, Any]) -> Transition:
        return transition_of(Phase(status["phase"]["name"]), str(status.get("reason", "")))

    def _position(self, status: dict[str, Any]) -> tuple[object, ...]:
        phase = status["phase"]
        return phase["name"], phase["since"], status.get("reason"), status.get("attempt", {}).get("id")

    def _paused(self) -> bool:
        meta = self.operator_fixture.kubernetes.job(KEY)["metadata"]
        return (meta.get("annotations") or {}).get(ANNOTATION_PAUSE) == "true"


PhaseStory.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_phase_story = PhaseStory.TestCase


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_leads_to_another(phase: Phase) -> None:
    """From each phase a row leads on, and each row that no deadline limits says which event does."""
    rows = [row for row in TRANSITIONS if row.phase is phase]
    assert len([row for row in rows if not row.reasons]) == 1
    for row in rows:
        assert row.success or phase is Phase.DELETING
        assert row.bound is Bound.OUTSIDE or row.seconds or phase in {*BY_KUBERNETES, Phase.BACKING_OFF}
        assert row.otherwise.endswith(".")


def test_every_phase_can_be_reached() -> None:
    reached = {following for row in TRANSITIONS for following in row.success}
    first = {Phase.PENDING, Phase.FAILED, Phase.FINISHED, Phase.DELETING}  # of a new job, and the ends
    assert reached | first == set(Phase)
