"""The next attempt beside the present one: brought up early, so that a stop costs the job seconds and no start.

A successor is an attempt like any other but for one thing: its driver comes up and waits. Until it is given its turn,
which the state machine does where it would otherwise start an attempt, it has touched nothing of the job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkasparkjob_operator.attempts import next_attempt, successors, unused_claims
from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.observation import JobResource, Live, Observation
from kafkasparkjob_operator.plan import Action, StartAttempt, WithdrawClaim, deletions
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.starting import claimant_seconds
from kafkasparkjob_operator.status import StatusDraft
from kafkasparkjob_operator.workload import SuccessorPolicy, Wanted
from sparkapp.model import names
from sparkapp.model.report import DriverState, Report

PREPARE_SECONDS = 90
"""A successor that is not prepared by then is not waited for any longer: the present attempt stops first."""
UNSCHEDULED_SECONDS = 10
"""The same for one that has no place in the cluster: it has one when the present attempt is gone."""
LOOK_AGAIN_SECONDS = 10.0
"""While pods of an older successor go; their events bring news sooner."""
STANDBY_AFTER_SECONDS = 20
"""So long after an attempt's start its standby comes up: it must not take the CPU that catching up needs."""
STANDBY_AGAIN_SECONDS = 300
"""A standby that has ended by itself is brought up again so long after its start."""

REFUSED = "successorRefused"
"""``status.attempt``: the generation whose successor Kubernetes has refused; not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is beside the present attempt.

    :param standing: the newest driver that awaits its turn and has not ended.
    :param ended: the newest one that has ended by itself.
    :param pods: every pod of every attempt whose driver awaits its turn, or did until it ended.
    """

    standing: PodView | None
    ended: PodView | None
    pods: tuple[PodView, ...]

    def fits(self, generation: int) -> bool:
        """Whether one stands that was started for that generation of the resource."""
        return self.standing is not None and self.standing.generation == generation

    def heir(self, generation: int, wanted: Wanted) -> PodView | None:
        """What may take the place of an attempt that is gone."""
        asked = wanted.restart_policy.successor is not SuccessorPolicy.AFTER_STOP
        return self.standing if asked and self.fits(generation) else None

    @property
    def but_standing(self) -> tuple[PodView, ...]:
        """Pods of older ones, and of those that have ended."""
        attempt = self.standing.attempt if self.standing is not None else 0
        return tuple(pod for pod in self.pods if pod.attempt != attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows for the successor while the present attempt runs.

    :param preparing: there is one to wait for.
    """

    actions: tuple[Action, ...] = ()
    look_again_after: float | None = None
    preparing: bool = False


def beside(observation: Observation) -> Beside:
    """Sorts the pods; called for every plan."""
    found = successors(observation)
    attempts, uids = {pod.attempt for pod in found}, {pod.uid for pod in found}
    return Beside(
        standing=next((pod for pod in found if not pod.finished and not pod.deleting), None),
        ended=next((pod for pod in found if pod.finished), None),
        pods=tuple(
            pod
            for pod in observation.pods
            if pod.uid in uids or (pod.role == names.ROLE_EXECUTOR and pod.attempt in attempts)
        ),
    )


def before_stop(
    draft: StatusDraft, observation: Observation, look: Callable[[], Live], wanted: Wanted, found: Beside
) -> Step:
    """What to do before the attempt that runs is asked to stop, because the resource has changed.

    Called by the state machine. It is not held up by a successor that cannot come up: one that ended by itself has
    met what the next attempt will tell of.

    :param look: the live part of the observation; may end the plan for want of it.
    """
    generation = observation.job.generation
    if not _may_come_up(observation.job, wanted):
        return Step()
    if found.ended is not None and found.ended.generation == generation:
        return Step()
    if found.fits(generation):
        left = _seconds_to_wait(draft, found, prepared=observation.prepared)
        return Step(actions=deletions(found.but_standing), look_again_after=left or None, preparing=left > 0)
    if found.pods:
        return Step(actions=deletions(found.pods), look_again_after=LOOK_AGAIN_SECONDS, preparing=True)
    return _start(draft, observation, look(), wanted)


def stand_by(
    draft: StatusDraft,
    observation: Observation,
    look: Callable[[], Live],
    wanted: Wanted,
    found: Beside,
    *,
    report: Report | None,
) -> Step:
    """Keeps a successor at hand where the resource asks for one, and none where it does not.

    Called by the state machine while an attempt runs what the resource says.
    """
    generation = observation.job.generation
    if wanted.restart_policy.successor is not SuccessorPolicy.STANDBY or not _may_come_up(observation.job, wanted):
        return Step(actions=deletions(found.pods))
    ended = found.ended
    if ended is not None and ended.generation == generation and ended.created is not None:
        left = STANDBY_AGAIN_SECONDS - (draft.now - ended.created).total_seconds()
        if 0 < left <= STANDBY_AGAIN_SECONDS:
            return Step(look_again_after=left)
    if found.pods:
        return Step(actions=deletions(found.but_standing if found.fits(generation) else found.pods))
    if report is None or report.state is not DriverState.RUNNING:
        return Step()
    started = parse_time(draft.section("attempt").get("startedAt"))
    left = STANDBY_AFTER_SECONDS - (draft.now - started).total_seconds() if started is not None else 0.0
    if 0 < left <= STANDBY_AFTER_SECONDS:
        return Step(look_again_after=left)
    return _start(draft, observation, look(), wanted)


def _may_come_up(job: JobResource, wanted: Wanted) -> bool:
    # A volume that one node may mount at a time would hold back the successor, or the attempt that runs.
    return (
        wanted.restart_policy.successor is not SuccessorPolicy.AFTER_STOP
        and not wanted.spec.state_claim
        and job.status.get("attempt", {}).get(REFUSED) != job.generation
    )


def _start(draft: StatusDraft, observation: Observation, live: Live, wanted: Wanted) -> Step:
    left = claimant_seconds(draft, observation, live)
    if left > 0:
        return Step(look_again_after=left, preparing=True)
    job = observation.job
    number = next_attempt(observation, live)
    claims = tuple(WithdrawClaim(attempt=claim.attempt) for claim in unused_claims(observation, live))
    start = StartAttempt(
        attempt=number, generation=job.generation, wanted=wanted, resource_spec=job.spec, awaits_turn=True
    )
    message = f"attempt {number} comes up beside the one that runs, and awaits its turn"
    draft.event(f"successor/{number}", "SuccessorStarted", message)
    return Step(actions=(*claims, start), look_again_after=PREPARE_SECONDS, preparing=True)


def _seconds_to_wait(draft: StatusDraft, found: Beside, *, prepared: int) -> float:
    """For the successor that stands; 0 where it is prepared, or was waited for long enough."""
    standing = found.standing
    if standing is None or standing.attempt == prepared:
        return 0.0
    limit = UNSCHEDULED_SECONDS if standing.waiting_reason else PREPARE_SECONDS
    age = (draft.now - standing.created).total_seconds() if standing.created is not None else 0.0
    return max(0.0, limit - max(0.0, age))
