"""Whether a driver's reports still come, by the operator's own clock.

A driver writes its report at least every ``heartbeat_seconds``, whatever its job does. How old the last one is, is
counted from the moment at which this process saw it change: no clock of another machine is part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkasparkjob_operator.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.observation import Observation
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.reasons import StopReason
from kafkasparkjob_operator.status import JobState, StatusDraft
from sparkapp.model.report import Report

STALE_SECONDS = 30.0
LOST_SECONDS = 90.0
"""So long a silent driver whose pod Kubernetes calls ready may come back; it may be frozen, or cut off for a moment."""
GRACE_SECONDS = 30
"""For the pod of a silent driver: what is frozen or cut off cannot drain, and the next attempt settles what it left."""
REASON = str(StopReason.HEARTBEAT_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """How long a driver has been silent, and when to look again.

    :param stale: its report says nothing about the present.
    :param lost: the attempt is to end.
    :param change_after: seconds after which the answer changes by itself; None where it does not.
    """

    stale: bool = False
    lost: bool = False
    change_after: float | None = None


def silence_of(report: Report | None, age: float, driver: PodView, *, replaceable: bool) -> Silence:
    """Judges the age of a report.

    Called by the state machine, at each look and when ``change_after`` is over.

    :param report: of the present attempt; one without heartbeats (a previous release's) is never stale, and an attempt
        that has not reported yet is starting.
    :param age: in seconds.
    :param replaceable: a prepared successor stands by, so that the end of the attempt costs a hand-over.
    """
    if report is None or not report.heartbeat_seconds:
        return Silence()
    limit = max(STALE_SECONDS, 3.0 * report.heartbeat_seconds)
    if age <= limit:
        return Silence(change_after=limit - age)
    # Not ready and silent is a lost node. Not ready alone is a kubelet that does not answer: the driver works.
    lost_after = max(limit, LOST_SECONDS) if driver.ready and not replaceable else limit
    lost = age > lost_after
    return Silence(stale=True, lost=lost, change_after=None if lost else lost_after - age)


def judge_silence(
    draft: StatusDraft,
    observation: Observation,
    driver: PodView,
    report: Report | None,
    *,
    heir: PodView | None,
    look: Callable[[], object],
) -> Silence:
    """Writes down what a silent driver means: not ready, no healthy checkpoints, an unknown lag.

    Called by the state machine while the driver's pod runs what the resource asks for.

    :param heir: the successor that stands by.
    :param look: ends the plan where it was made from the cache, because the cache itself may be late.
    """
    found = silence_of(report, observation.report_age, driver, replaceable=heir is not None and heir.ready)
    if not found.stale:
        return found
    look()
    message = message_for(driver)
    draft.section("source").pop("lagRecords", None)
    draft.condition(ConditionType.CHECKPOINT_HEALTHY, ConditionStatus.FALSE, reason=REASON, message=message)
    if draft.has_condition(ConditionType.TRANSACTIONS_HEALTHY):
        draft.condition(ConditionType.TRANSACTIONS_HEALTHY, ConditionStatus.UNKNOWN, reason=REASON, message=message)
    draft.event(f"silent/{driver.uid}", REASON, message, warning=True)
    if found.lost:
        draft.section("attempt")["stopReason"] = str(StopReason.HEARTBEAT_TIMEOUT)
    draft.set_state(JobState.RESTARTING if found.lost else JobState.RUNNING, reason=REASON, message=message)
    return found


def is_superseded(draft: StatusDraft, heir: PodView) -> bool:
    """True where a lost attempt is not waited for: a prepared successor takes over while its pods may still run.

    What they can do is fenced: the checkpoint document is the successor's from its first write, and the transactions
    are those of the producers' next epoch. Without a successor (AfterStop) their absence is waited for.
    """
    return heir.ready and draft.section("attempt").get("stopReason") == StopReason.HEARTBEAT_TIMEOUT


def message_for(driver: PodView) -> str:
    """Status, condition and event: the same text at each look."""
    what = "and Kubernetes calls its pod not ready" if not driver.ready else "although its pod runs"
    return (
        f"driver pod {driver.name} on node {driver.node or '?'} has sent no report for over {STALE_SECONDS:.0f} s,"
        f" {what}: its processes are frozen, the node is lost, or it cannot reach the API server; the operator ends the"
        " attempt if that lasts"
    )
