"""Nothing of the job runs: whether another attempt may start, now, later, or not before a person acts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafkasparkjob_operator.attempts import attempts_ran, current_attempt, next_attempt, record_of, unused_claims
from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.code import DIGEST, forget_failures
from kafkasparkjob_operator.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.endings import Outcome, left_by
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation import AttemptRecord, Live, Observation
from kafkasparkjob_operator.plan import (
    Action,
    CreateState,
    DeleteAttemptRecord,
    GiveTurn,
    StartAttempt,
    WithdrawClaim,
)
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.reasons import StartReason, StopReason
from kafkasparkjob_operator.repairs import SCALE
from kafkasparkjob_operator.state_view import StateKind, state_missing
from kafkasparkjob_operator.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import RestartPolicy, Wanted, wanted_from_resource
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError, KafkaSparkJobError

LOOK_AT_STATE_AGAIN = 30.0
"""A refused state may be restored by hand; nothing tells us."""
CLEAR_SECONDS = 1.5
"""A pause that is over so soon: the former attempt's finished pod, kept for its log until then, goes now."""
AWAIT_COLLECTION = 2.0
AWAIT_CLAIMANT = 10.0
"""An attempt's ConfigMap is followed by its driver pod at once; so long is waited for one whose pod is not there."""

_STATE_OF = {
    StartReason.CREATED: JobState.STARTING,
    StartReason.RESUMED: JobState.STARTING,
    StartReason.RESCALED: JobState.RESCALING,
    StartReason.SPEC_CHANGED: JobState.RESTARTING,
    StartReason.RESTARTED: JobState.RESTARTING,
}
_START_AFTER_STOP: dict[str, StartReason] = {
    StopReason.SUSPEND: StartReason.RESUMED,
    StopReason.RESCALE: StartReason.RESCALED,
    StopReason.SPEC_CHANGE: StartReason.SPEC_CHANGED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows.

    :param ready: everything allows the next step, so that the finished pod of the former attempt may go.
    """

    actions: tuple[Action, ...] = ()
    ready: bool = False
    look_again_after: float | None = None


def decide_start(
    draft: StatusDraft,
    observation: Observation,
    live: Live,
    wanted: Wanted | None,
    *,
    suspend: bool,
    clear: bool,
    successor: PodView | None = None,
) -> Decision:
    """Decides about the next attempt and writes state and reason.

    Called by the state machine when every pod of every former attempt is gone, but for a finished driver that is kept
    for its log.

    :param wanted: the resource's spec, None where it is invalid: then the last valid one goes on.
    :param clear: that finished driver is gone, too; without it nothing is started yet.
    :param successor: a driver of the resource's generation that awaits its turn: it is given its turn instead.
    """
    if suspend:
        return _suspended(draft, observation, wanted) if clear else Decision(ready=True)
    if wanted is not None:
        chosen = AttemptRecord(
            attempt=0, owner_uid="", generation=observation.job.generation, spec=observation.job.spec
        )
    else:
        fallback = _last_accepted(draft, observation, live)
        if fallback is None:
            message = "the resource is invalid: see condition ConfigValid"
            draft.set_state(JobState.FAILED, reason="InvalidSpec", message=message)
            return Decision()
        chosen, wanted = fallback
    forget_failures(draft, observation)
    refusal = _refusal(draft, observation, live, wanted, generation=chosen.generation, heir=successor is not None)
    if refusal is not None:
        return refusal
    if not clear:
        return Decision(ready=True)
    left = claimant_seconds(draft, observation, live)
    if left > 0:
        return Decision(look_again_after=left)
    return _start(draft, observation, live, wanted=wanted, chosen=chosen, successor=successor)


def _refusal(
    draft: StatusDraft, observation: Observation, live: Live, wanted: Wanted, *, generation: int, heir: bool
) -> Decision | None:
    pause = _held_back(draft, wanted.restart_policy, generation=generation)
    if pause is not None and (not heir or pause.look_again_after is None):
        return pause
    refusal = _refused_state(draft, observation, live) or _prefix_in_use(draft, observation.prefix_rival, wanted)
    if refusal is not None or pause is None or pause.look_again_after is None:
        return refusal
    # The finished pod takes a second to go, which a successor need not wait for when the pause is over.
    return replace(pause, ready=pause.look_again_after <= CLEAR_SECONDS)


def _suspended(draft: StatusDraft, observation: Observation, wanted: Wanted | None) -> Decision:
    number = current_attempt(observation)
    sink = None if wanted is None else wanted.spec.sink
    outcome = draft.section("attempt").get("outcome", "")
    left = left_by(outcome, attempt=number, job=observation.job.identity.key, sink=sink)
    message = "; ".join(filter(None, ("nothing runs", left, "set spec.suspend to false to go on")))
    draft.set_state(JobState.SUSPENDED, reason="Suspended", message=message)
    if draft.former_state != JobState.SUSPENDED:
        message = f"stopped after attempt {number}" if number else "not started, because spec.suspend is true"
        draft.event(f"suspended/{number}/{observation.job.generation}", "Suspended", message)
    return Decision(ready=True)


def _last_accepted(draft: StatusDraft, observation: Observation, live: Live) -> tuple[AttemptRecord, Wanted] | None:
    """The spec of the newest attempt: an invalid edit does not stop a job for good."""
    identity = observation.job.identity
    record = record_of(live, current_attempt(observation), identity.uid)
    if record is None:
        return None
    try:
        wanted = wanted_from_resource(record.spec, namespace=identity.namespace, name=identity.name)
    except ConfigurationError:
        return None
    return replace(record, generation=draft.section("attempt").get("generation", record.generation)), wanted


def _held_back(draft: StatusDraft, policy: RestartPolicy, *, generation: int) -> Decision | None:
    """A bounded job's end, a failure that stands until the resource changes, or a pause that is not over.

    A pause that is longer than any is one whose clock was set back since: it must not last as long as that.
    """
    failure = draft.section("lastFailure")
    tried = draft.section("attempt").get("generation") == generation
    if tried and draft.section("attempt").get("outcome") == Outcome.FINISHED:
        message = f"read to its end; change source.stopping to start it again; {SCALE}"
        draft.set_state(JobState.FINISHED, reason="Finished", message=message)
        draft.condition(ConditionType.FINISHED, ConditionStatus.TRUE, reason="Finished", message=message)
        return Decision()
    if failure.get("fatal") is True and failure.get("generation") == generation:
        if draft.state != JobState.FAILED:
            text = "; ".join(filter(None, (failure.get("message"), failure.get("remedy"))))
            draft.set_state(JobState.FAILED, reason=str(failure.get("reason") or "Failed"), message=text)
        return Decision()
    retry = parse_time(draft.section("restarts").get("nextRetryTime"))
    if tried and retry is not None:
        left = (retry - draft.now).total_seconds()
        if 0 < left <= max(policy.initial_seconds, policy.max_seconds):
            return Decision(look_again_after=left)
    return None


def _refused_state(draft: StatusDraft, observation: Observation, live: Live) -> Decision | None:
    """Never start from a state that is gone, unreadable or somebody else's."""
    state = live.state
    checkpoint = int(draft.section("checkpoint").get("id", 0))
    if state.kind is StateKind.COLLECTED:
        message = "Kubernetes still removes the state of a deleted job of the same name"
        draft.set_state(JobState.PENDING, reason="AwaitingCollection", message=message)
        return Decision(look_again_after=AWAIT_COLLECTION)
    error: KafkaSparkJobError | None = state.error
    if (state.kind is StateKind.ABSENT and attempts_ran(observation, live)) or (
        state.kind is StateKind.EMPTY and checkpoint > 0
    ):
        error = state_missing(observation.job.identity, attempts=current_attempt(observation), checkpoint=checkpoint)
    if error is None:
        if state.kind is not StateKind.ABSENT:
            draft.condition(ConditionType.STATE_VALID, ConditionStatus.TRUE, reason="Readable")
        return None
    text = f"{error.message}; {error.remedy}"
    draft.condition(ConditionType.STATE_VALID, ConditionStatus.FALSE, reason=error.reason, message=text)
    draft.set_state(JobState.FAILED, reason=error.reason, message=text)
    draft.event(f"state/{error.reason}/{current_attempt(observation)}", error.reason, text, warning=True)
    return Decision(look_again_after=LOOK_AT_STATE_AGAIN)


def _prefix_in_use(draft: StatusDraft, rival: JobKey | None, wanted: Wanted) -> Decision | None:
    """Two jobs under the same transactional ids would abort each other's transactions without end."""
    if rival is None:
        return None
    message = (
        f"job {rival} already writes with the transactional id prefix {wanted.spec.sink.transactional_id_prefix!r};"
        " delete one of the two, and create it again with another sink.transactionalIdPrefix"
    )
    draft.set_state(JobState.FAILED, reason="PrefixInUse", message=message)
    draft.event(f"prefix/{rival}", "PrefixInUse", message, warning=True)
    return Decision(look_again_after=LOOK_AT_STATE_AGAIN)


def claimant_seconds(draft: StatusDraft, observation: Observation, live: Live) -> float:
    """How long another operator that has just claimed the next number may still take to create its driver.

    Where the clocks of API server and operator disagree by more, nobody is waited for; the claim is withdrawn then.
    """
    ages = ((draft.now - one.created).total_seconds() for one in unused_claims(observation, live) if one.created)
    return max((AWAIT_CLAIMANT - age for age in ages if age >= 0), default=0.0)


def _start(
    draft: StatusDraft,
    observation: Observation,
    live: Live,
    *,
    wanted: Wanted,
    chosen: AttemptRecord,
    successor: PodView | None,
) -> Decision:
    job = observation.job
    number = next_attempt(observation, live) if successor is None else successor.attempt
    reason = _start_reason(draft, chosen.generation)
    actions: list[Action] = []
    if live.state.kind is StateKind.ABSENT:
        actions.append(CreateState())
        draft.condition(ConditionType.STATE_VALID, ConditionStatus.TRUE, reason="Created")
    claims = unused_claims(observation, live)
    actions.extend(WithdrawClaim(attempt=claim.attempt) for claim in claims)
    if successor is None:
        actions.append(
            StartAttempt(attempt=number, generation=chosen.generation, wanted=wanted, resource_spec=chosen.spec)
        )
    else:
        actions.append(GiveTurn(name=successor.name, uid=successor.uid))
    # The last one stays: should the pod's creation be all that is lost, its number is still known to be taken.
    actions.extend(
        DeleteAttemptRecord(attempt=record.attempt)
        for record in live.records
        if record.owner_uid == job.identity.uid and record.attempt < number - 1 and record not in claims
    )
    _announce(draft, number, reason, wanted, successor)
    pod = names.driver_pod(job.identity.name, number)
    draft.replace(
        "attempt",
        {
            "id": number,
            "generation": chosen.generation,
            "startedAt": format_time(draft.now),
            "startReason": str(reason),
            "driverPod": pod,
            **({"driverPodUID": successor.uid} if successor is not None else {}),
            # A successor has imported what was there when it came up: that of the attempt before, or it rolls again.
            DIGEST: observation.code if successor is None else draft.section("attempt").get(DIGEST, ""),
        },
    )
    restarts = draft.section("restarts")
    restarts.setdefault("total", 0)
    restarts.pop("nextRetryTime", None)
    if reason is not StartReason.RESTARTED and restarts.get("consecutiveFailures"):
        # Somebody has changed the resource: what failed before says nothing of it.
        restarts["consecutiveFailures"] = 0
    draft.replace("parallelism", wanted.spec.parallelism)
    draft.replace("executors", {"desired": wanted.workload.executor_instances, "running": 0})
    draft.section("transactions")["prefix"] = wanted.spec.sink.transactional_id_prefix
    if draft.has_condition(ConditionType.FINISHED):
        message = f"attempt {number} was started"
        draft.condition(ConditionType.FINISHED, ConditionStatus.FALSE, reason="Submitted", message=message)
    how = "was started" if successor is None else "has its turn"
    draft.set_state(_STATE_OF[reason], reason="Submitted", message=f"attempt {number} {how}: pod {pod}")
    return Decision(actions=tuple(actions), ready=True)


def _start_reason(draft: StatusDraft, generation: int) -> StartReason:
    attempt = draft.section("attempt")
    if not attempt.get("id"):
        return StartReason.CREATED
    asked = _START_AFTER_STOP.get(attempt.get("stopReason", ""))
    if asked is not None:
        return asked
    return StartReason.SPEC_CHANGED if attempt.get("generation") != generation else StartReason.RESTARTED


def _announce(draft: StatusDraft, number: int, reason: StartReason, wanted: Wanted, successor: PodView | None) -> None:
    if reason is StartReason.RESUMED:
        draft.event(f"resumed/{number}", "Resumed", f"goes on with attempt {number}")
    draft.event(
        f"start/{number}",
        "Submitted" if successor is None else "TurnGiven",
        f"attempt {number} ({reason}): parallelism {wanted.spec.parallelism},"
        f" {wanted.workload.executor_instances} executor(s), image {wanted.workload.image}",
    )
