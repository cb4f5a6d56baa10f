"""A paused reconciliation: the status shows what is there, and the operator changes nothing (ADR 76).

The annotation is :data:`~kafkasparkjob_operator.identity.ANNOTATION_PAUSE`. The driver continues. No decision is
made: attempt, restarts and failures keep what the last decision wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkasparkjob_operator.decisions.checks.heartbeat import silence_of
from kafkasparkjob_operator.decisions.executors import count_executors, forget_executors
from kafkasparkjob_operator.decisions.running import forget_rates, show_report
from kafkasparkjob_operator.identity import ANNOTATION_PAUSE
from kafkasparkjob_operator.observation.observation import JobResource, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from sparkapp.model.report import Report

_KIND = ConditionType.RECONCILIATION_PAUSED
_PAUSED = f"the operator changes nothing of the job: it has the annotation {ANNOTATION_PAUSE}"


def runs(observation: Observation, driver: PodView | None, report: Report | None) -> bool:
    """Whether the driver is alive as far as the operator can see. Called by the state machine."""
    if driver is None or driver.finished or driver.deleting:
        return False
    return not silence_of(observation, driver, report).stale


def show_paused(
    draft: StatusDraft, job: JobResource, driver: PodView | None, executors: Sequence[PodView], report: Report | None
) -> None:
    """Writes condition and event of the pause, and whether the job is Ready meanwhile.

    Called by the state machine instead of every decision.

    :param driver: None where no driver of the current attempt is alive.
    """
    draft.keep_generation()
    if draft.since(_KIND, ConditionStatus.TRUE) is None:
        draft.condition(_KIND, ConditionStatus.TRUE, reason="Annotated", message=_PAUSED)
        draft.event(f"paused/{draft.since(_KIND, ConditionStatus.TRUE)}", JobReason.RECONCILIATION_PAUSED, _PAUSED)
    if driver is None:
        _show_absence(draft)
        return
    # A failed executor is counted when its number can be written on its pod.
    count_executors(draft, [pod for pod in executors if not pod.finished], started=driver.started)
    if not driver.started or report is None:
        return
    generation = draft.section("attempt").get("generation")
    if generation == job.generation:
        show_report(draft, driver, executors, report, job=job.identity.key, current=True)
        return
    message = f"attempt {driver.attempt} runs generation {generation}, and generation {job.generation} waits: {_PAUSED}"
    state, reason = JobState(draft.state or JobState.RUNNING), JobReason.RECONCILIATION_PAUSED
    draft.set_state(state, reason=reason, message=message, phase=draft.phase, deadline=draft.deadline)


def end_pause(draft: StatusDraft) -> None:
    """The annotation is gone: the operator decides again. Called by the state machine before it does."""
    since = draft.since(_KIND, ConditionStatus.TRUE)
    if since is None:
        return
    draft.drop_condition(_KIND)
    draft.event(f"resumed/{since}", JobReason.RECONCILIATION_RESUMED, "the operator decides about the job again")


def _show_absence(draft: StatusDraft) -> None:
    """No driver is alive. A state that is not Ready already says what the job waits for."""
    forget_rates(draft)
    if draft.section("attempt"):
        forget_executors(draft)
    if draft.state and draft.since(ConditionType.READY, ConditionStatus.TRUE) is None:
        return
    message = f"no driver of the job runs, and none is started: {_PAUSED}"
    state, reason = JobState(draft.state or JobState.PENDING), JobReason.RECONCILIATION_PAUSED
    draft.set_state(state, reason=reason, message=message, phase=draft.phase, deadline=draft.deadline)
