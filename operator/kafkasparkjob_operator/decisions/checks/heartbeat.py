"""The heartbeat of a driver, measured by the operator's own clock.

A driver writes its report at least every ``heartbeat_seconds``, whatever its job does. So heartbeats are no progress:
an attempt that starts or ends has a deadline by its steps. Ages count from the moment at which this process saw a
value change, so no clock of another machine matters (ADR 29).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from kafkasparkjob_operator.decisions.attempts import first_report_by
from kafkasparkjob_operator.decisions.plan import Silence
from kafkasparkjob_operator.observation.observation import Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.phases import FIRST_REPORT_SECONDS, LOST_SECONDS, NO_PROGRESS_SECONDS, Phase
from kafkasparkjob_operator.status.reasons import OF_THE_OPERATOR, StopReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, SuccessorPolicy
from sparkapp.model.report import DriverState, Report

STALE_SECONDS = 30.0
WITH_DEADLINE = frozenset({DriverState.STARTING, DriverState.RECOVERING, DriverState.DRAINING})
"""States in which an attempt must make progress. A running attempt may have nothing to read."""
GRACE_SECONDS = 30
"""Grace period of a silent driver's pod, which cannot drain; the next attempt settles its transactions."""


def silence_of(
    observation: Observation, driver: PodView, report: Report | None, *, standby: PodView | None = None
) -> Silence:
    """Judges the age of the report.

    Called by the state machine at each look, and after ``change_after``.

    :param report: of the current attempt; None while it starts. A report without heartbeats (of a previous release) is
        never stale.
    :param standby: the standby driver that may be activated; where it is prepared, the end of the attempt is cheap.
    """
    if report is None or not report.heartbeat_seconds:
        return Silence()
    age = observation.ages.report
    limit = max(STALE_SECONDS, 3.0 * report.heartbeat_seconds)
    if age <= limit:
        return _progress_of(observation, report, silent_at=limit)
    replaceable = standby is not None and _can_run(standby) and standby.attempt == observation.prepared
    # Silent with a pod that is not ready: the node is lost. Without silence only its kubelet does not answer.
    lost_after = max(limit, LOST_SECONDS) if driver.ready and not replaceable else limit
    lost = age > lost_after
    return Silence(stale=True, lost=lost, change_after=None if lost else lost_after - age)


def _progress_of(observation: Observation, report: Report, *, silent_at: float) -> Silence:
    if report.state not in WITH_DEADLINE:
        return Silence(silent_at=silent_at)
    left = NO_PROGRESS_SECONDS - observation.ages.progress
    if left > 0:
        return Silence(change_after=left, silent_at=silent_at)
    return Silence(stale=True, lost=True, reason=StopReason.NO_PROGRESS)


def judge_silence(
    draft: StatusDraft,
    observation: Observation,
    driver: PodView,
    report: Report | None,
    *,
    standby: PodView | None,
    look: Callable[[], object],
) -> Silence:
    """Writes the status of a silent driver: not ready, no healthy checkpoints, an unknown lag.

    Called by the state machine while the driver's pod runs, and is not asked to stop.

    :param standby: the standby driver that may be activated.
    :param look: ends a plan that was made from the cache, because the cache may be late.
    """
    found = silence_of(observation, driver, report, standby=standby)
    if report is None and driver.started:
        left = (first_report_by(draft, driver) - draft.now).total_seconds()
        found = Silence(change_after=left) if left > 0 else Silence(stale=True, lost=True)
    if not found.stale:
        return found
    look()
    message = message_for(driver, first=report is None)
    if found.reason is StopReason.NO_PROGRESS:
        message = _without_progress(driver, report)
    reason = found.reason
    draft.section("source").pop("lagRecords", None)
    draft.condition(ConditionType.CHECKPOINT_HEALTHY, ConditionStatus.FALSE, reason=reason, message=message)
    if draft.has_condition(ConditionType.TRANSACTIONS_HEALTHY):
        draft.condition(ConditionType.TRANSACTIONS_HEALTHY, ConditionStatus.UNKNOWN, reason=reason, message=message)
    draft.event(
        f"{'slow' if reason is StopReason.NO_PROGRESS else 'silent'}/{driver.uid}", reason, message, warning=True
    )
    if found.lost:
        draft.section("attempt")["stopReason"] = str(found.reason)
    state, phase = (JobState.RESTARTING, Phase.STOPPING) if found.lost else (JobState.RUNNING, Phase.RUNNING)
    ends = draft.now + timedelta(seconds=GRACE_SECONDS) if found.lost else None
    draft.set_state(state, reason=reason, message=message, phase=phase, deadline=ends)
    return found


def is_superseded(draft: StatusDraft, standby: PodView | None, desired: DesiredJob | None) -> bool:
    """True where a standby driver takes over although pods of the lost attempt may still run.

    The lost attempt is fenced. The standby owns the checkpoint document from its first write, and its producers have
    the next epoch. Under the other policies the next attempt waits until those pods are gone.

    :param standby: the standby driver that may be activated.
    """
    asked = desired is not None and desired.restart_policy.successor is SuccessorPolicy.STANDBY
    if not asked or standby is None or not _can_run(standby):
        return False
    return draft.section("attempt").get("stopReason") in OF_THE_OPERATOR


def _can_run(standby: PodView) -> bool:
    """False for a pod that waits for a node or an image, and for a pod on a node that does not answer."""
    return standby.started and standby.ready


def _without_progress(driver: PodView, report: Report | None) -> str:
    state = "" if report is None else f" in state {report.state}"
    return (
        f"driver pod {driver.name} on node {driver.node or '?'} sends reports, and has made no progress for"
        f" {NO_PROGRESS_SECONDS:.0f} s{state}. Its JVM or a client is frozen. The operator ends the attempt"
    )


def message_for(driver: PodView, *, first: bool = False) -> str:
    """The message of status, condition and event; the same text at each look.

    :param first: the driver has not reported yet.
    """
    if first:
        return (
            f"driver pod {driver.name} on node {driver.node or '?'} has sent no report for {FIRST_REPORT_SECONDS:.0f} s"
            " since its container started. It is frozen, or it cannot reach the API server. The operator ends the"
            " attempt"
        )
    what = "and its pod is not ready" if not driver.ready else "although its pod runs"
    return (
        f"driver pod {driver.name} on node {driver.node or '?'} has sent no report for over {STALE_SECONDS:.0f} s,"
        f" {what}. It is frozen, its node is lost, or it cannot reach the API server. The operator ends the attempt if"
        " this lasts"
    )
