"""Nothing of the job runs: whether another attempt may start now, later, or only after a person acts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.decisions.attempts import (
    CODE_DIGEST,
    REVISION,
    Unsettled,
    claimant_seconds,
    current_attempt,
    next_attempt,
    note_lost_attempt,
    record_of,
    show_spec,
    show_start,
    snapshot_of_start,
    spec_of,
    standby_drivers,
    start_reason,
    unneeded_revisions,
    unsettled,
    unused_claims,
)
from kafkasparkjob_operator.decisions.checks.causes import STATE_DIGEST, forget_failures
from kafkasparkjob_operator.decisions.checks.code import digest_of_start
from kafkasparkjob_operator.decisions.checks.repairs import SCALE
from kafkasparkjob_operator.decisions.checks.start_refusals import LOOK_AT_STATE_AGAIN, refused_prefix, refused_state
from kafkasparkjob_operator.decisions.endings import ORDERLY, EndingKind
from kafkasparkjob_operator.decisions.plan import (
    Action,
    Activate,
    CreateState,
    DeleteAttemptRecord,
    StartAttempt,
    WithdrawClaim,
)
from kafkasparkjob_operator.decisions.restarts import START_PERIOD_SECONDS
from kafkasparkjob_operator.decisions.revisions.refusal import accept, has_gone_back, replaced_by_nothing
from kafkasparkjob_operator.decisions.revisions.stateless import stateless_of
from kafkasparkjob_operator.decisions.revisions.upgrade import begin_revision, way_back
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.observation import AttemptRecord, Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.observation.state_view import StateKind
from kafkasparkjob_operator.resources.acceptance import accepted_job
from kafkasparkjob_operator.resources.revisions import revision_of
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason, StartReason
from kafkasparkjob_operator.status.status import INVALID_SPEC, JobState, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, JobSettings, RestartPolicy
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError

AWAIT_RESTART_SECONDS = 60.0
"""A job that waits for others is woken; this covers a restart of the others that never ends."""
CLEAR_SECONDS = 1.5
"""The finished pod of the previous attempt, kept for its log, is deleted this long before the pause ends."""

_STATE_OF = {
    StartReason.CREATED: JobState.STARTING,
    StartReason.RESUMED: JobState.STARTING,
    StartReason.RESCALED: JobState.RESCALING,
    StartReason.SPEC_CHANGED: JobState.RESTARTING,
    StartReason.RESTARTED: JobState.RESTARTING,
    StartReason.ROLLED_BACK: JobState.RESTARTING,
    StartReason.DELETED: JobState.DELETING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of :func:`decide_start`.

    :param ready: nothing forbids the next step, so the finished pod of the previous attempt may be deleted.
    :param restarts: an attempt starts although nobody has asked for it.
    :param awaits_restart: it would start, but too many other jobs restart.
    """

    actions: tuple[Action, ...] = ()
    ready: bool = False
    look_again_after: float | None = None
    restarts: bool = False
    awaits_restart: bool = False


def decide_start(
    draft: StatusDraft,
    observation: Observation,
    live: Live,
    desired: DesiredJob | None,
    *,
    suspend: bool,
    clear: bool,
    settings: JobSettings,
    standby: PodView | None = None,
) -> Decision:
    """Decides about the next attempt and writes state and reason.

    Called by the state machine when every pod of every previous attempt is gone, except a finished driver that is kept
    for its log.

    :param desired: the resource's spec; None where it is invalid.
    :param clear: the finished driver is gone, too; before that nothing is started.
    :param standby: a standby driver of the resource's generation: it is activated instead of a new attempt.
    """
    if suspend:
        return _suspended(draft, observation, live, settings) if clear else Decision(ready=True)
    withheld = replaced_by_nothing(draft)
    choice = next_spec(draft, observation, live, desired, withheld=withheld, settings=settings)
    if choice is None:
        message = "the spec is invalid: see condition ConfigValid"
        draft.set_state(JobState.FAILED, reason=INVALID_SPEC, message=message, phase=Phase.FAILED)
        return Decision()
    chosen, desired = choice
    forget_failures(draft, observation, live)
    generation = _generation(draft, observation, chosen)
    restarts = standby is None and start_reason(draft, generation) is StartReason.RESTARTED
    refusal = _refusal(draft, observation, live, desired, generation=generation, standby=standby is not None)
    if refusal is None and restarts and not observation.may_restart:
        message = "the job restarts when some of the other jobs that restart at the moment run"
        draft.set_starting(
            JobState.RESTARTING, reason=JobReason.AWAITING_RESTART, message=message, phase=Phase.BACKING_OFF
        )
        refusal = Decision(awaits_restart=True, look_again_after=AWAIT_RESTART_SECONDS)
    if refusal is not None:
        return refusal
    if not clear:
        return Decision(ready=True)
    left = claimant_seconds(draft, observation, live)
    if left > 0:
        draft.enter(Phase.BACKING_OFF, deadline=draft.now + timedelta(seconds=left))
        return Decision(look_again_after=left)
    if chosen.spec is observation.job.spec:
        accept(draft)  # what was refused is tried
    actions = submit(draft, observation, live, desired=desired, chosen=chosen, settings=settings, standby=standby)
    return Decision(actions=actions, ready=True, restarts=restarts)


def _generation(draft: StatusDraft, observation: Observation, chosen: AttemptRecord) -> int:
    """The generation that the next attempt stands for, in the status. Its ConfigMap has that of its revision.

    A job that has gone back does all that the present generation makes it do. So failures count, and have their pauses.
    """
    return observation.job.generation if has_gone_back(draft) else chosen.generation


def _refusal(
    draft: StatusDraft, observation: Observation, live: Live, desired: DesiredJob, *, generation: int, standby: bool
) -> Decision | None:
    pause = _held_back(draft, desired.restart_policy, generation=generation)
    if pause is not None and (not standby or pause.look_again_after is None):
        return pause
    refusal = _refused(draft, observation, live)
    if refusal is not None or pause is None or pause.look_again_after is None:
        return refusal
    # The deletion of the finished pod takes a second; it begins early, so that a standby driver does not wait for it.
    return replace(pause, ready=pause.look_again_after <= CLEAR_SECONDS)


def _suspended(draft: StatusDraft, observation: Observation, live: Live, settings: JobSettings) -> Decision:
    note_lost_attempt(draft, observation, live)
    attempt, job = draft.section("attempt"), observation.job.identity
    number, outcome = attempt.get("id", 0), attempt.get("outcome", "")
    left = _left_by(outcome, attempt=number, job=job.key, left=unsettled(draft, observation, live, settings))
    command = f'kubectl patch ksj {job.name} -n {job.namespace} --type merge -p \'{{"spec":{{"suspend":false}}}}\''
    message = "; ".join(filter(None, ("nothing runs: spec.suspend is true", left, f"resume the job: {command}")))
    draft.set_state(JobState.SUSPENDED, reason=JobReason.SUSPENDED, message=message, phase=Phase.SUSPENDED)
    if draft.previous_state != JobState.SUSPENDED:
        message = (
            f"the job stopped after attempt {number}" if number else "the job was not started: spec.suspend is true"
        )
        draft.event(f"suspended/{number}/{observation.job.generation}", JobReason.SUSPENDED, message)
    return Decision(ready=True)


def _left_by(outcome: str, *, attempt: int, job: JobKey, left: Unsettled) -> str:
    """The message about an attempt that may have left a transaction open; empty where it ended in order.

    No next attempt settles the transaction for now.

    :param outcome: ``status.attempt.outcome``.
    """
    if not outcome or outcome in ORDERLY:
        return ""
    text = f"attempt {attempt} did not drain in order ({outcome})"
    if not left.possible:
        return f"{text}: the next attempt may write the records since its last checkpoint again"
    until = "a person ends it: it may have no time-out"
    if left.seconds is not None:
        until = f"its time-out of {left.seconds} s has passed"
    return (
        f"{text}: an open transaction may hold back read_committed readers until {until}. The next attempt settles it."
        f" List it: `python3 -m sparkapp txn list --namespace {job.namespace} --job {job.name}`"
    )


def next_spec(
    draft: StatusDraft,
    observation: Observation,
    live: Live,
    desired: DesiredJob | None,
    *,
    withheld: bool,
    settings: JobSettings,
) -> tuple[AttemptRecord, DesiredJob] | None:
    """The spec of the next attempt, also where that only settles what a deleted job has left.

    It is the resource's, unless that is invalid or withheld. Then it is that of the revision that the job has gone back
    to, or else that of the newest attempt.

    :param desired: of the resource; None where it is invalid.
    :param withheld: the resource is refused. It is the next all the same where no earlier spec can be read.
    :returns: what :func:`submit` takes; None where the resource is invalid, too.
    """
    job, own = observation.job, None
    if desired is not None:
        own = AttemptRecord(attempt=0, owner_uid="", generation=job.generation, spec=job.spec), desired
    if own is not None and not withheld:
        return own
    earlier = way_back(draft, observation, live, settings) or _last_accepted(draft, observation, live, settings)
    return earlier or own


def _last_accepted(
    draft: StatusDraft, observation: Observation, live: Live, settings: JobSettings
) -> tuple[AttemptRecord, DesiredJob] | None:
    """The spec of the newest attempt, judged again, for its names."""
    identity = observation.job.identity
    record = record_of(live, current_attempt(observation), identity.uid)
    if record is None:
        return None
    if draft.parallelism:  # it may have been rescaled in place
        record = replace(record, spec={**record.spec, "parallelism": draft.parallelism})
    try:
        desired = accepted_job(record.spec, job=identity, settings=settings, recorded_image=record.default_image)
    except ConfigurationError:
        return None
    generation = draft.section("attempt").get("generation", record.generation)
    return replace(record, generation=generation, code=""), desired


def _held_back(draft: StatusDraft, policy: RestartPolicy, *, generation: int) -> Decision | None:
    """A bounded job's end, a failure that stands until its cause changes, or a pause that is not over.

    A pause beyond the policy's longest pause is ignored: the clock was set back meanwhile.
    """
    failure = draft.section("lastFailure")
    tried = draft.section("attempt").get("generation") == generation
    if tried and draft.section("attempt").get("outcome") == EndingKind.FINISHED:
        message = f"the job has read to its end; change spec.source.stopping to start it again; {SCALE}"
        draft.set_state(JobState.FINISHED, reason=JobReason.FINISHED, message=message, phase=Phase.FINISHED)
        draft.condition(ConditionType.FINISHED, ConditionStatus.TRUE, reason="Finished", message=message)
        return Decision()
    if failure.get("fatal") is True and failure.get("generation") == generation:
        if draft.state != JobState.FAILED:
            text = "; ".join(filter(None, (failure.get("message"), failure.get("remedy"))))
            reason = str(failure.get("reason") or JobReason.FAILED)
            draft.set_state(JobState.FAILED, reason=reason, message=text, phase=Phase.FAILED)
        draft.enter(Phase.FAILED)
        return Decision(look_again_after=LOOK_AT_STATE_AGAIN if STATE_DIGEST in failure else None)
    retry = parse_time(draft.section("restarts").get("nextRetryTime"))
    if tried and retry is not None:
        left = (retry - draft.now).total_seconds()
        # A longer time is a jump of the clock.
        if 0 < left <= max(policy.initial_seconds, policy.max_seconds, START_PERIOD_SECONDS):
            draft.enter(Phase.BACKING_OFF, deadline=retry)
            return Decision(look_again_after=left)
    return None


def _refused(draft: StatusDraft, observation: Observation, live: Live) -> Decision | None:
    again = refused_state(draft, observation, live) or refused_prefix(draft, observation.prefix_refusal)
    return None if again is None else Decision(look_again_after=again)


def submit(
    draft: StatusDraft,
    observation: Observation,
    live: Live,
    *,
    desired: DesiredJob,
    chosen: AttemptRecord,
    settings: JobSettings,
    standby: PodView | None = None,
    settles: bool = False,
    removes_state: bool = False,
) -> tuple[Action, ...]:
    """Starts the next attempt, in the status and in the actions that are returned.

    Called where nothing forbids the attempt and no pod of an earlier attempt exists. Pods of standby drivers that are
    being deleted may exist.

    :param chosen: generation and spec of the resource that the attempt runs, and the digest of its modules, or none.
    :param standby: a standby driver: it is activated instead.
    :param settles: the job is being deleted: the attempt settles its transactions and ends.
    :param removes_state: likewise, and it removes the job's query state.
    """
    job = observation.job
    number = next_attempt(observation, live) if standby is None else standby.attempt
    activated = None if standby is None else record_of(live, number, job.identity.uid)
    code = chosen.code or digest_of_start(draft, observation, live, chosen.spec, activated)
    generation = _generation(draft, observation, chosen)
    reason = StartReason.DELETED if settles else start_reason(draft, generation)
    actions: list[Action] = []
    if live.state.kind is StateKind.ABSENT:
        actions.append(CreateState())
        draft.condition(ConditionType.STATE_VALID, ConditionStatus.TRUE, reason="Created")
    claims = unused_claims(observation, live)
    withdrawn = tuple(WithdrawClaim(name=claim.name, uid=claim.uid) for claim in claims)
    stateless = 0 if activated is None else activated.stateless
    if standby is None:
        if not settles:
            stateless = stateless_of(draft, observation, live, desired, spec=chosen.spec, number=number, code=code)
        actions.append(
            StartAttempt(
                attempt=number,
                generation=chosen.generation,
                desired=desired,
                resource_spec=chosen.spec,
                settles=settles,
                removes_state=removes_state,
                referenced=live.references(job.identity),
                code=code,
                snapshot="" if settles else snapshot_of_start(live, desired, stateless=stateless),
                stateless=stateless,
                withdrawn=withdrawn,
            )
        )
    else:
        actions.extend(withdrawn)
        actions.append(Activate(name=standby.name, uid=standby.uid))
    # The newest record stays: it proves that its number is taken, even where the creation of the pod fails.
    # The record of a standby driver that is being deleted proves that the pod is the operator's.
    kept = {pod.attempt for pod in standby_drivers(observation)}
    actions.extend(
        DeleteAttemptRecord(name=record.name, uid=record.uid)
        for record in live.records
        if record.owner_uid == job.identity.uid
        and record.attempt < number - 1
        and record not in claims
        and record.attempt not in kept
    )
    revision = revision_of(chosen.spec, desired, modules=code).name(job.identity)
    revision = revision if activated is None else activated.revision
    begin_revision(draft, live, desired, revision=revision)
    actions.extend(
        DeleteAttemptRecord(name=kept.name, uid=kept.uid)
        for kept in unneeded_revisions(observation, live, revision=revision, code=code)
    )
    prepared = None if standby is None else spec_of(live, number, job.identity, settings)
    begins = "" if stateless != number else ", without the checkpoint (spec.upgrade.mode Stateless)"
    _announce(draft, number, reason, prepared or desired, standby, begins=begins)
    pod = names.driver_pod(job.identity.name, number)
    draft.replace(
        "attempt",
        {
            "id": number,
            "generation": generation,
            "startedAt": format_time(draft.now),
            "startReason": str(reason),
            "driverPod": pod,
            **({"driverPodUID": standby.uid} if standby is not None else {}),
            **({REVISION: standby.revision} if standby is not None and standby.revision else {}),
            CODE_DIGEST: code,
        },
    )
    show_start(draft, number, reason)
    show_spec(draft, desired)
    how = "was started" if standby is None else "was activated"
    message = f"attempt {number} {how}: pod {pod}"
    draft.set_starting(_STATE_OF[reason], reason=JobReason.SUBMITTED, message=message, phase=Phase.SCHEDULING)
    return tuple(actions)


def _announce(
    draft: StatusDraft, number: int, reason: StartReason, desired: DesiredJob, standby: PodView | None, *, begins: str
) -> None:
    if reason is StartReason.RESUMED:
        draft.event(f"resumed/{number}", JobReason.RESUMED, f"the job resumes with attempt {number}")
    draft.event(
        f"start/{number}",
        JobReason.SUBMITTED if standby is None else JobReason.TURN_GIVEN,
        f"attempt {number} starts ({reason}): parallelism {desired.spec.parallelism},"
        f" {desired.workload.executor_instances} executor(s), image {desired.workload.image}{begins}",
    )
