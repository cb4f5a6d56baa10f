"""The autoscaler of a job that runs: from its report to ``status.autoscaler`` and events.

A decision is written and published in the plan that makes it. The next plan reads it in the status, makes it the target
(:mod:`~kafkasparkjob_operator.decisions.lifecycle.target`), and carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.decisions.executors import missing_executors
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.decision import Situation, Verdict, decide
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.demand import Demand
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.history import body_of, history_of
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.room import UNLIMITED, Room, room_of
from kafkasparkjob_operator.decisions.plan import Action
from kafkasparkjob_operator.decisions.revisions.refusal import refuses_rescale, refuses_revision
from kafkasparkjob_operator.observation.observation import Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.observation.quota_view import QuotaRow
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.scaling_reason import DECISION, ScalingReason
from kafkasparkjob_operator.status.status import StatusDraft
from kafkasparkjob_operator.workload import Autoscaler, DesiredJob
from sparkapp.model.report import DriverState, Report

AUTOSCALER = "autoscaler"
"""``status``: decision, finding and what the autoscaler remembers."""
_BLOCKS = frozenset(
    {
        ScalingReason.AT_MAXIMUM, ScalingReason.HOT_PARTITION, ScalingReason.INEFFECTIVE, ScalingReason.NO_ROOM,
        ScalingReason.NOT_READING, ScalingReason.RATE_LIMITED,
    }
)  # fmt: skip
"""Findings of a job that needs more, and that more subtasks do not help, or that gets none."""


def rescale_due(
    draft: StatusDraft, driver: PodView, report: Report | None, desired: DesiredJob, *, current: bool
) -> bool:
    """Whether the attempt may have to change: for the resource's generation, or for its parallelism alone.

    A decision has no generation of its own. While a revision is refused, the attempt has no other change.

    :param desired: what is to run. :param current: the attempt runs the resource's generation.
    """
    refuses = refuses_revision(draft)
    if not (current or refuses):
        return True
    if desired.autoscaler is None and not refuses:
        return False
    if report is None or report.state is not DriverState.RUNNING:
        return False
    wanted = desired.spec.parallelism
    is_shown = draft.previous_phase is Phase.RESCALING
    was_asked = driver.asked_parallelism > 0
    return draft.parallelism != wanted or (was_asked and (driver.asked_parallelism != wanted or is_shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The result of :func:`autoscale`.

    :param look_again_after: seconds after which the decision can be carried out; None without one.
    :param asks_room: a growth waits for the quotas of the namespace.
    :param actions: none: the next plan carries a decision out.
    """

    look_again_after: float | None = None
    asks_room: bool = False
    actions: tuple[Action, ...] = ()


def autoscale(
    observation: Observation,
    draft: StatusDraft,
    executors: Sequence[PodView],
    report: Report | None,
    desired: DesiredJob | None,
    *,
    of_spec: int,
    withdrawn: bool = False,
) -> Scaling:
    """Judges the load of the attempt, and decides. Called by the state machine while its driver is alive.

    :param executors: of the attempt, which are counted.
    :param desired: what is to run; None where the spec is invalid.
    :param of_spec: ``spec.parallelism`` of the resource. :param withdrawn: its growth has found no room.
    """
    if desired is None:
        return Scaling()
    policy, spec = desired.autoscaler, desired.spec
    if policy is None:
        draft.replace(AUTOSCALER, {})
        return Scaling()
    kept = draft.section(AUTOSCALER)
    before = history_of(kept)
    if report is None or report.state is not DriverState.RUNNING:
        told: dict[str, Any] = {name: kept[name] for name in ("reason", "message", "recommended") if name in kept}
        draft.replace(AUTOSCALER, {**body_of(before.without_wishes()), **told})
        return Scaling()
    missing, runs = missing_executors(draft, executors, report), draft.parallelism
    demand = None
    if report.load is not None and runs:
        demand = Demand(
            load=report.load, runs=runs, interval=spec.checkpoint_interval,
            divisible=bool(spec.source.max_records_per_split),
        )  # fmt: skip
    running = draft.section("executors").get("running", 0)
    situation = Situation(
        demand=demand, runs=runs, wanted=spec.parallelism, of_spec=of_spec, in_place=report.rescales,
        missing=missing.cause, refused=missing.refused, withdrawn=withdrawn,
        withheld=refuses_rescale(draft) and runs != spec.parallelism,
        fits=running * desired.workload.executor_cores, room=_room(desired, observation.quotas, running),
        running_since=parse_time(draft.section("attempt").get("runningSince")),
        max_rate=spec.source.max_rate_per_partition, places=desired.places,
    )  # fmt: skip
    verdict = decide(policy, situation, before, draft.now)
    _write(draft, verdict)
    _tell(draft, verdict, policy, runs)
    return Scaling(look_again_after=0.0 if verdict.changes else None, asks_room=verdict.asks_room)


def _room(desired: DesiredJob, quotas: Sequence[QuotaRow] | None, running: int) -> Room | None:
    """A fixed number of executors needs no more room."""
    if desired.places:
        return UNLIMITED
    return None if quotas is None else room_of(quotas, desired.workload, running=running)


def _write(draft: StatusDraft, verdict: Verdict) -> None:
    """The message stays while its reason does: its numbers change with each report."""
    kept = draft.section(AUTOSCALER)
    is_same = kept.get("reason") == verdict.reason and kept.get("recommended", 0) == verdict.recommended
    message = kept.get("message") if is_same and not verdict.changes else verdict.message
    told = {"reason": str(verdict.reason), "message": message, "recommended": verdict.recommended}
    draft.replace(AUTOSCALER, {**body_of(verdict.history), **{name: value for name, value in told.items() if value}})


def _tell(draft: StatusDraft, verdict: Verdict, policy: Autoscaler, runs: int) -> None:
    history = verdict.history
    if verdict.changes:
        reason = JobReason.SCALING_UP if history.parallelism > runs else JobReason.SCALING_DOWN
        message = f"the parallelism changes from {runs} to {history.parallelism}: {verdict.message}"
        if verdict.reason is ScalingReason.NO_ROOM:
            reason, message = JobReason.SCALING_BLOCKED, f"NoRoom: {verdict.message}"
        is_blocked = reason is JobReason.SCALING_BLOCKED
        draft.event(f"{DECISION}{format_time(draft.now)}", reason, message, warning=is_blocked)
    elif verdict.advised:
        message = f"the parallelism would change from {runs} to {verdict.recommended}: {verdict.message}"
        since = format_time(history.above_since or history.below_since or draft.now)
        draft.event(f"advised/{runs}/{verdict.recommended}/{since}", JobReason.SCALING_ADVISED, message)
    elif verdict.reason in _BLOCKS and history.above_since is not None:
        lasts = (draft.now - history.above_since).total_seconds() >= policy.stabilization_seconds
        if lasts:
            occurrence = f"blocked/{verdict.reason}/{format_time(history.above_since)}"
            message = f"{verdict.reason}: {draft.section(AUTOSCALER).get('message')}"
            draft.event(occurrence, JobReason.SCALING_BLOCKED, message, warning=True)
