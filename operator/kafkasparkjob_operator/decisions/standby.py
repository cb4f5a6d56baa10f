"""The next attempt, started while the current attempt still runs, so that a stop does not wait for a start.

Its driver is a standby driver: it starts, prepares and waits for its activation. It touches nothing of the job before
that. The state machine activates it at the point where it would otherwise start an attempt (ADR 19).

A driver that is next takes over at the checkpoint of the present attempt's drain. Its claim of the document is the
proof, which an operator that ends at any moment finds again (ADR 95).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.attempts import (
    claimant_seconds,
    current_attempt,
    next_attempt,
    own_drivers,
    record_of,
    snapshot_of_start,
    spec_of,
    standby_drivers,
    unused_claims,
)
from kafkasparkjob_operator.decisions.checks.code import digest_of_start
from kafkasparkjob_operator.decisions.endings import EndingKind
from kafkasparkjob_operator.decisions.plan import Action, Activate, StartAttempt, WithdrawClaim, deletions
from kafkasparkjob_operator.decisions.revisions.refusal import (
    Cause,
    cause_of_end,
    cause_of_wait,
    is_refused,
    revision_name,
)
from kafkasparkjob_operator.decisions.revisions.stateless import stateless_of
from kafkasparkjob_operator.decisions.starting import submit
from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.observation import AttemptRecord, Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.phases import PREPARE_SECONDS, Phase
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, JobSettings, PrepareFallback, SuccessorPolicy
from sparkapp.model import names
from sparkapp.model.report import CREDENTIALS_CHANGED, DriverState, Report

UNSCHEDULED_SECONDS = 10
"""The same for an unschedulable standby driver, which has room when the current attempt is gone."""
LOOK_AGAIN_SECONDS = 10.0
"""While pods of an older standby are deleted; their events usually come sooner."""
STANDBY_AFTER_SECONDS = 20
"""From an attempt's start to the start of its standby, which must not take the CPU that catching up needs."""
STANDBY_AGAIN_SECONDS = 300
"""From the start of a standby that ended by itself to the start of its replacement; as long after two failed tries."""
PREPARING = JobReason.PREPARING_SUCCESSOR
"""``status.reason`` of a job whose attempt runs until a standby driver for a changed resource is prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPods:
    """The pods of standby attempts.

    :param standing: the newest standby driver that has not ended.
    :param ended: the newest standby driver that has ended by itself.
    :param pods: every pod of every standby attempt, ended attempts included.
    :param next_attempts: those that may have begun by themselves.
    :param revision: that a standby driver has to have; empty where its generation says enough.
    """

    standing: PodView | None
    ended: PodView | None
    pods: tuple[PodView, ...]
    next_attempts: frozenset[int]
    revision: str = ""

    def is_of(self, pod: PodView, generation: int) -> bool:
        """Whether the standby driver was started for that generation of the resource, and has the present modules."""
        return pod.generation == generation and (not self.revision or pod.revision in {"", self.revision})

    def fits(self, generation: int, desired: DesiredJob) -> bool:
        """True where a standby driver was started for that generation of the resource, and for that parallelism."""
        standing = self.standing
        if standing is None or not self.is_of(standing, generation):
            return False
        return standing.standby_parallelism in {0, desired.spec.parallelism}

    def usable(self, draft: StatusDraft, generation: int, desired: DesiredJob) -> PodView | None:
        """The standby driver that may be activated when the current attempt is gone."""
        asked = desired.prepares_next
        return self.standing if asked and self.fits(generation, desired) and not _ended_for_credentials(draft) else None

    def present(self, now: datetime) -> bool:
        """False where all pods are past their grace period: the node may be lost, and nobody waits for their end."""
        return any(pod.gone_by is None or pod.gone_by > now for pod in self.pods)

    def waited_for(self, unused: Iterable[PodView], *, suspend: bool) -> Iterable[PodView]:
        """Those of the pods, none of which is activated, that have to be gone before the next attempt starts.

        A standby driver that is being deleted is never activated. It has touched nothing, so its end does not matter.

        :param suspend: nothing of the job is to be left.
        """
        return (pod for pod in unused if suspend or not pod.deleting or pod.attempt in self.next_attempts)

    @property
    def superseded(self) -> tuple[PodView, ...]:
        """Pods of older standby attempts, and of standby attempts that have ended."""
        attempt = self.standing.attempt if self.standing is not None else 0
        return tuple(pod for pod in self.pods if pod.attempt != attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next step for the standby driver while the current attempt runs.

    :param preparing: a standby driver is on its way and worth the wait; or a snapshot is, of that name.
    :param refusal: why the attempt is not replaced, as its standby driver shows.
    :param deadline: by when a standby driver is prepared, or the current attempt stops first.
    """

    actions: tuple[Action, ...] = ()
    look_again_after: float | None = None
    preparing: bool = False
    refusal: Cause | None = None
    deadline: datetime | None = None
    snapshot: str = ""


def standby_pods(observation: Observation, desired: DesiredJob | None = None) -> StandbyPods:
    """Selects the pods of standby attempts; called for every plan.

    :param desired: of the resource; None where it is invalid, or nothing will be activated.
    """
    by_revision = desired is not None and desired.upgrade.is_blue_green and bool(observation.code)
    found = standby_drivers(observation)
    attempts, uids = {pod.attempt for pod in found}, {pod.uid for pod in found}
    return StandbyPods(
        standing=next((pod for pod in found if not pod.finished and not pod.deleting), None),
        ended=next((pod for pod in found if pod.finished), None),
        pods=tuple(
            pod
            for pod in observation.pods
            if pod.uid in uids or (pod.role == names.ROLE_EXECUTOR and pod.attempt in attempts)
        ),
        next_attempts=frozenset(pod.attempt for pod in found if pod.is_next),
        revision=revision_name(observation, desired) if desired is not None and by_revision else "",
    )


def before_stop(
    draft: StatusDraft,
    observation: Observation,
    look: Callable[[], Live],
    desired: DesiredJob,
    found: StandbyPods,
    *,
    works: bool,
) -> Step:
    """Prepares a standby driver before the running attempt is stopped for a changed resource.

    Called by the state machine. A change whose standby driver is known to fail does not replace an attempt that works.

    :param look: returns the live part of the observation, or ends the plan where there is none.
    :param works: the running attempt reads and writes. Otherwise its stop is not delayed by a standby driver that
        fails: the next attempt reports the same cause.
    """
    job = observation.job
    if not _may_come_up(observation, desired, found):
        return Step(refusal=_without_room(observation, desired)) if works else Step()
    ended = found.ended
    if ended is not None and not ended.deleting and (is_refused(draft) or found.is_of(ended, job.generation)):
        return _after_end(draft, observation, desired, found, ended) if works else Step()
    if found.fits(job.generation, desired):
        left = _seconds_to_wait(draft, found, desired, prepared=observation.prepared)
        waits = found.standing if works else None
        cause = None
        if waits is not None:
            late = left <= 0 and (not desired.upgrade.is_blue_green or bool(waits.node))
            cause = cause_of_wait(waits, job, late=late) or _not_prepared(waits, observation, desired, left=left)
        again = None if cause is not None else left or None
        return Step(
            actions=deletions(found.superseded), look_again_after=again, preparing=left > 0 and cause is None,
            refusal=cause, deadline=draft.now + timedelta(seconds=left),
        )  # fmt: skip
    if found.present(draft.now):
        gone = max((pod.gone_by for pod in found.pods if pod.gone_by is not None), default=draft.now)
        return Step(
            actions=deletions(found.pods), look_again_after=LOOK_AGAIN_SECONDS, preparing=True,
            deadline=gone + timedelta(seconds=PREPARE_SECONDS),
        )  # fmt: skip
    return _start(draft, observation, look(), desired)


def _after_end(
    draft: StatusDraft, observation: Observation, desired: DesiredJob, found: StandbyPods, ended: PodView
) -> Step:
    """A standby driver for the present spec has ended: the next is started later, if that can help."""
    cause = cause_of_end(ended, observation.job)
    if cause is None:
        return Step()
    # The code changes without a new generation, and so does the autoscaler's decision.
    same_revision = ended.revision in {"", revision_name(observation, desired)}
    tried = same_revision and ended.standby_parallelism in {0, desired.spec.parallelism}
    if tried and cause.lasts:
        return Step(refusal=cause)
    left = STANDBY_AGAIN_SECONDS - (draft.now - ended.created).total_seconds() if ended.created is not None else 0.0
    if tried and 0 < left <= STANDBY_AGAIN_SECONDS:
        return Step(look_again_after=left, refusal=cause)
    again = draft.now + timedelta(seconds=PREPARE_SECONDS)
    return Step(actions=deletions(found.pods), look_again_after=LOOK_AGAIN_SECONDS, preparing=True, deadline=again)


def show_preparing(draft: StatusDraft, observation: Observation, desired: DesiredJob, step: Step) -> None:
    """Writes that the attempt runs until its successor is prepared, or the snapshot before it is Ready."""
    attempt, generation = current_attempt(observation), observation.job.generation
    message = f"attempt {attempt} runs until a standby driver for generation {generation} is prepared"
    if step.snapshot:
        message = f"attempt {attempt} runs until snapshot {step.snapshot} is Ready (spec.upgrade.snapshot)"
    rescales = draft.parallelism and draft.parallelism != desired.spec.parallelism
    state = JobState.RESCALING if rescales else JobState.RESTARTING
    reason, phase = (JobReason.SNAPSHOTTING, Phase.SNAPSHOTTING) if step.snapshot else (PREPARING, Phase.PREPARING)
    draft.set_state(state, reason=reason, message=message, phase=phase, deadline=step.deadline)


def stand_by(
    draft: StatusDraft,
    observation: Observation,
    look: Callable[[], Live],
    desired: DesiredJob,
    found: StandbyPods,
    *,
    report: Report | None,
) -> Step:
    """Keeps a standby driver under ``successor: Standby``, and deletes standby pods under the other policies.

    Called by the state machine while an attempt runs the resource's spec.
    """
    generation = observation.job.generation
    if desired.restart_policy.successor is not SuccessorPolicy.STANDBY or not _may_come_up(observation, desired, found):
        return Step(actions=deletions(found.pods))
    ended = found.ended
    if ended is not None and ended.generation == generation and ended.created is not None:
        left = STANDBY_AGAIN_SECONDS - (draft.now - ended.created).total_seconds()
        if 0 < left <= STANDBY_AGAIN_SECONDS:
            return Step(look_again_after=left)
    if found.present(draft.now):
        return Step(actions=deletions(found.superseded if found.fits(generation, desired) else found.pods))
    if report is None or report.state is not DriverState.RUNNING:
        return Step()
    started = parse_time(draft.section("attempt").get("startedAt"))
    left = STANDBY_AFTER_SECONDS - (draft.now - started).total_seconds() if started is not None else 0.0
    if 0 < left <= STANDBY_AFTER_SECONDS:
        return Step(look_again_after=left)
    return _start(draft, observation, look(), desired)


def name_next(observation: Observation, desired: DesiredJob | None, standby: PodView | None) -> tuple[Action, ...]:
    """Tells the standby driver that it is next; called where the running attempt is asked to stop for a change.

    :param standby: the standby driver that may be activated.
    """
    if desired is None or standby is None or not desired.upgrade.is_blue_green:
        return ()
    if standby.is_next or standby.attempt != observation.prepared:
        return ()
    return (Activate(name=standby.name, uid=standby.uid, is_next=True),)


def take_over(
    draft: StatusDraft, observation: Observation, live: Live, settings: JobSettings
) -> tuple[Action, ...] | None:
    """Makes a standby driver that has claimed the document the job's attempt, as by an activation.

    Called by the state machine while the attempt before it ends, or is gone. The driver may have ended, too.

    :returns: None where no standby driver has claimed it.
    """
    document, job = live.state.document, observation.job.identity
    if document is None:
        return None
    taken = next((pod for pod in standby_drivers(observation) if pod.is_next and pod.attempt == document.attempt), None)
    if taken is None:
        return None
    record, desired = record_of(live, taken.attempt, job.uid), spec_of(live, taken.attempt, job, settings)
    if record is None or desired is None:  # the next look finds the driver of an attempt without a start
        return (Activate(name=taken.name, uid=taken.uid),)
    chosen = AttemptRecord(attempt=0, owner_uid="", generation=record.generation, spec=record.spec, code=record.code)
    return submit(draft, observation, live, desired=desired, chosen=chosen, settings=settings, standby=taken)


def _ended_for_credentials(draft: StatusDraft) -> bool:
    """Whether the current attempt has drained by itself because the job's Secrets have new content.

    Mounted files of a standby driver's pods may be older than those of this attempt's pods, so new pods are needed.
    """
    attempt = draft.section("attempt")
    return (
        attempt.get("outcome") == EndingKind.DRAINED
        and not attempt.get("stopReason")
        and draft.section("restarts").get("lastReason") == CREDENTIALS_CHANGED
    )


def _may_come_up(observation: Observation, desired: DesiredJob, found: StandbyPods) -> bool:
    """Whether there may be a standby driver. A refusal does not count where its pod exists: an answer was lost."""
    # A ReadWriteOnce volume would block the standby driver, or the running attempt.
    current, generation = current_attempt(observation), observation.job.generation
    refused = {pod.standby_refused for pod in own_drivers(observation) if pod.attempt == current}
    refused.add(observation.standby_refused)
    return (
        desired.prepares_next
        and not desired.spec.state_claim
        and (found.fits(generation, desired) or generation not in refused)
    )


def _start(draft: StatusDraft, observation: Observation, live: Live, desired: DesiredJob) -> Step:
    left = claimant_seconds(draft, observation, live)
    ends = draft.now + timedelta(seconds=PREPARE_SECONDS)
    if left > 0:
        return Step(look_again_after=left, preparing=True, deadline=ends)
    job = observation.job
    number = next_attempt(observation, live)
    claims = tuple(WithdrawClaim(name=claim.name, uid=claim.uid) for claim in unused_claims(observation, live))
    code = digest_of_start(draft, observation, live, job.spec, None)
    stateless = stateless_of(draft, observation, live, desired, spec=job.spec, number=number, code=code)
    start = StartAttempt(
        attempt=number, generation=job.generation, desired=desired, resource_spec=job.spec, awaits_activation=True,
        takes_over=desired.upgrade.is_blue_green,
        referenced=live.references(job.identity), code=code, stateless=stateless,
        snapshot=snapshot_of_start(live, desired, stateless=stateless), withdrawn=claims,
    )  # fmt: skip
    return Step(actions=(start,), look_again_after=PREPARE_SECONDS, preparing=True, deadline=ends)


def _without_room(observation: Observation, desired: DesiredJob) -> Cause | None:
    """Why a blue/green change is refused whose standby driver could not be created."""
    if not desired.upgrade.is_blue_green or desired.upgrade.prepare_fallback is not PrepareFallback.ABORT:
        return None
    job = observation.job.identity
    message = (
        "no standby driver could be created for it, see event SuccessorRefused; raise the quota and set another"
        f" spec.restartNonce, or stop the attempt first: {_recreate(job)}"
    )
    return Cause(reason=JobReason.NOT_PREPARED, message=message, lasts=True)


def _not_prepared(standing: PodView, observation: Observation, desired: DesiredJob, *, left: float) -> Cause | None:
    """Why a blue/green change is refused whose standby driver does not get ready in time."""
    upgrade = desired.upgrade
    if left > 0 or standing.attempt == observation.prepared or not upgrade.is_blue_green:
        return None
    if upgrade.prepare_fallback is not PrepareFallback.ABORT:
        return None
    why = f" ({standing.waiting_reason}: {standing.waiting_message})" if standing.waiting_reason else ""
    message = (
        f"the standby driver {standing.name} is not prepared after {upgrade.prepare_timeout_seconds} s"
        f" (spec.upgrade.prepareTimeoutSeconds){why}; the change follows when it is; to stop the attempt first:"
        f" {_recreate(observation.job.identity)}"
    )
    return Cause(reason=JobReason.NOT_PREPARED, message=message)


def _recreate(job: JobIdentity) -> str:
    patch = '{"spec":{"upgrade":{"prepareFallback":"Recreate"}}}'
    return f"kubectl patch ksj {job.name} -n {job.namespace} --type merge -p '{patch}'"


def _seconds_to_wait(draft: StatusDraft, found: StandbyPods, desired: DesiredJob, *, prepared: int) -> float:
    """For the standing standby driver; 0 where it is prepared, or the time limit has passed."""
    standing = found.standing
    if standing is None or standing.attempt == prepared:
        return 0.0
    if desired.upgrade.is_blue_green:
        age = (draft.now - standing.created).total_seconds() if standing.created is not None else 0.0
        return max(0.0, desired.upgrade.prepare_timeout_seconds - max(0.0, age))
    limit = UNSCHEDULED_SECONDS if standing.waiting_reason else PREPARE_SECONDS
    since = standing.started_at or standing.created  # the pull of its image is no preparation
    age = (draft.now - since).total_seconds() if since is not None else 0.0
    return max(0.0, limit - max(0.0, age))
