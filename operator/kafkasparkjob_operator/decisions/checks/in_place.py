"""A change of the parallelism alone, which the running attempt makes in place where it can (ADR 57).

The operator asks by annotations of the driver's pod, and the driver confirms by its report. Both outlive the operator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.attempts import spec_of
from kafkasparkjob_operator.decisions.executors import GRACE_SECONDS, PENDING, missing_executors, tell_refusal
from kafkasparkjob_operator.decisions.plan import Action, AskForScale
from kafkasparkjob_operator.decisions.revisions.refusal import Cause, is_refused, is_tried_again, refuses_revision
from kafkasparkjob_operator.observation.observation import Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.phases import CONFIRM_SECONDS, WITHDRAW_SECONDS, Phase
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, JobSettings
from sparkapp.model.report import DriverState, Report

ROOM_SECONDS = 300.0
"""For the added subtasks to start. After that the state is that of the present subtasks, and the request stays."""
REQUESTED = JobReason.RESCALE_REQUESTED
"""The driver's pod does not have the annotations yet. Kubernetes may refuse them."""
ASKED = JobReason.RESCALING_IN_PLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """The running attempt is, or becomes, an attempt of the resource's present spec.

    :param rescaling: to which parallelism it changes; 0 where it has changed, or does not change.
    :param refusal: why the request is taken back. :param withdrawn: it is, and the autoscaler takes note of that.
    """

    actions: tuple[Action, ...] = ()
    rescaling: int = 0
    look_again_after: float | None = None
    refusal: Cause | None = None
    withdrawn: bool = False


def rescale_in_place(
    draft: StatusDraft,
    observation: Observation,
    live: Live,
    driver: PodView,
    report: Report | None,
    *,
    desired: DesiredJob,
    settings: JobSettings,
) -> InPlace | None:
    """The next step of the running attempt to the resource's spec; None where it needs another attempt.

    Called by the state machine for a resource that has changed since the attempt was started or last rescaled.
    """
    wanted, job = desired.spec.parallelism, observation.job
    started = spec_of(live, driver.attempt, job.identity, settings)
    scaled = spec_of(live, driver.attempt, job.identity, settings, parallelism=wanted)
    is_other = is_tried_again(draft, observation, desired)
    if started is None or scaled is None or is_other or not scaled.same_application(desired):
        return None
    policy = desired.autoscaler
    withdrawn = policy is not None and policy.takes_back(draft.parallelism, wanted)
    # A request that nothing would remember as taken back stays: the next plan would ask again.
    may_refuse = withdrawn or not is_refused(draft)
    if _is_withdrawn(draft) or (may_refuse and _has_no_room(draft, driver, report, wanted)):
        runs = spec_of(live, driver.attempt, job.identity, settings, parallelism=draft.parallelism)
        taken = _withdrawn(draft, driver, report, runs, wanted)
        is_known = withdrawn or is_refused(draft)
        return replace(taken, refusal=None, withdrawn=withdrawn) if taken.refusal and is_known else taken
    if (driver.asked_parallelism or started.spec.parallelism) == wanted:
        return _asked(draft, observation, driver, report, desired)
    if report is None or report.state is not DriverState.RUNNING or not report.rescales:
        return None
    left = CONFIRM_SECONDS - (draft.seconds_in(Phase.RESCALING) or 0.0)
    if left <= 0 or _given_up(draft):
        return None
    ask = AskForScale(
        name=driver.name, uid=driver.uid, parallelism=wanted, executors=desired.workload.executor_instances,
        at=format_time(draft.now),
    )  # fmt: skip
    return InPlace(actions=(ask,), rescaling=wanted, look_again_after=left)


def _given_up(draft: StatusDraft) -> bool:
    """True where another attempt is on its way to the resource's spec already."""
    return draft.seconds_in(Phase.PREPARING) is not None or bool(draft.section("attempt").get("stopReason"))


def _asked(
    draft: StatusDraft, observation: Observation, driver: PodView, report: Report | None, desired: DesiredJob
) -> InPlace | None:
    """The same for a driver that runs that parallelism, or was asked for it."""
    generation, wanted = observation.job.generation, desired.spec.parallelism
    if driver.asked_parallelism:
        draft.section("executors")["desired"] = desired.workload.executor_instances
    asked_at = "" if driver.asked_at is None else format_time(driver.asked_at)
    occurrence = f"{driver.attempt}/{generation}/{asked_at}"  # an autoscaler asks without a new generation
    confirmed = report is not None and report.rescaling == wanted
    if not driver.asked_parallelism or (report is not None and confirmed and report.parallelism == wanted):
        if not refuses_revision(draft):
            draft.section("attempt")["generation"] = generation
        if driver.asked_parallelism and draft.previous_phase is Phase.RESCALING:
            message = f"the job runs with parallelism {wanted}: attempt {driver.attempt} was rescaled in place"
            draft.event(f"rescaled/{occurrence}", JobReason.RESCALED, message)
        return InPlace()
    message = f"attempt {driver.attempt} changes its parallelism from {draft.parallelism} to {wanted} in place"
    draft.event(f"rescale/{occurrence}", JobReason.RESCALE_STARTED, message)
    if confirmed:
        changes = (_left(draft, driver, seconds) for seconds in (GRACE_SECONDS, ROOM_SECONDS, WITHDRAW_SECONDS))
        return InPlace(rescaling=wanted, look_again_after=next((left for left in changes if left > 0), None))
    left = _left(draft, driver, CONFIRM_SECONDS)
    return InPlace(rescaling=wanted, look_again_after=left) if left > 0 else None


def _is_withdrawn(draft: StatusDraft) -> bool:
    return bool(draft.refusal.get("reason") == JobReason.RESCALE_WITHDRAWN)


def _has_no_room(draft: StatusDraft, driver: PodView, report: Report | None, wanted: int) -> bool:
    """Whether the driver has tried for long enough. A driver that does not confirm is stopped sooner."""
    tries = report is not None and report.rescaling == wanted and draft.parallelism != wanted
    return tries and driver.asked_parallelism == wanted and _left(draft, driver, WITHDRAW_SECONDS) <= 0


def _withdrawn(
    draft: StatusDraft, driver: PodView, report: Report | None, runs: DesiredJob | None, wanted: int
) -> InPlace:  # fmt: skip
    """Asks for the parallelism that runs, until the driver's pod says so."""
    if runs is None or driver.asked_parallelism != wanted:
        return InPlace()
    parallelism, executors = runs.spec.parallelism, runs.workload.executor_instances
    draft.section("executors")["desired"] = executors
    ask = AskForScale(
        name=driver.name, uid=driver.uid, parallelism=parallelism, executors=executors, at=format_time(draft.now)
    )
    why = f": {report.executors_refused}" if report is not None and report.executors_refused else ""
    message = (
        f"it has found no room for parallelism {wanted} within {WITHDRAW_SECONDS:.0f} s and runs with"
        f" {parallelism}{why}; make room, or choose another spec.parallelism"
    )
    cause = Cause(reason=JobReason.RESCALE_WITHDRAWN, message=message, lasts=True)
    return InPlace(actions=(ask,), refusal=cause, look_again_after=CONFIRM_SECONDS)


def _left(draft: StatusDraft, driver: PodView, seconds: float) -> float:
    """The rest of these seconds since the request."""
    age = (draft.now - driver.asked_at).total_seconds() if driver.asked_at is not None else seconds
    return seconds - max(0.0, age)


def show_rescaling(
    draft: StatusDraft, driver: PodView, executors: list[PodView], wanted: int, report: Report | None
) -> None:
    """Writes the state of an attempt that changes its parallelism: it reads and writes with the previous meanwhile.

    Where there is no room for the executors it is Ready, and stays so: it runs with what fits.
    """
    if driver.asked_parallelism != wanted:
        message = (
            f"attempt {driver.attempt} runs with parallelism {draft.parallelism}, and the operator asks it to change to"
            f" {wanted} in place"
        )
        begun = draft.now - timedelta(seconds=draft.seconds_in(Phase.RESCALING) or 0.0)
        ends = begun + timedelta(seconds=CONFIRM_SECONDS)
        draft.set_state(JobState.RUNNING, reason=REQUESTED, message=message, phase=Phase.RESCALING, deadline=ends)
        return
    missing = missing_executors(draft, executors, report)
    tell_refusal(draft, driver, missing)
    message = f"attempt {driver.attempt} runs with parallelism {draft.parallelism} and changes to {wanted} in place"
    limit = WITHDRAW_SECONDS if report is not None and report.rescaling == wanted else CONFIRM_SECONDS
    ends = (driver.asked_at or draft.now) + timedelta(seconds=limit)
    without_cause, waits = (_left(draft, driver, seconds) <= 0 for seconds in (ROOM_SECONDS, GRACE_SECONDS))
    if not (missing.refused or (missing.cause and waits) or without_cause):
        text = message + missing.cause
        draft.set_state(JobState.RESCALING, reason=ASKED, message=text, phase=Phase.RESCALING, deadline=ends)
        return
    message += missing.cause or f"; its subtasks have not started for {ROOM_SECONDS:.0f} s"
    runs = draft.section("executors")["running"] > 0
    draft.set_state(JobState.RUNNING, reason=PENDING, message=message, ready=runs, phase=Phase.RESCALING, deadline=ends)
