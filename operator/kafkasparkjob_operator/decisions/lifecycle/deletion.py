"""The deletion of a job whose readers must not wait: its transactions are settled before the resource is removed.

Under ``spec.deletion`` or ``sink.transactions.timeoutSeconds: 0`` the resource has the operator's finalizer. A deletion
stops the driver, as a suspension does or at once. Where the last attempt did not end in order, another attempt runs its
recovery and ends. The finalizer is removed after that, or when the time limit has passed (ADR 27, ADR 84).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.attempts import (
    attempts_ran,
    claimant_seconds,
    current_attempt,
    note_lost_attempt,
    own_drivers,
    record_of,
    settings_of,
)
from kafkasparkjob_operator.decisions.checks.belonging import with_own_pods
from kafkasparkjob_operator.decisions.checks.prefix_needs import IN_USE
from kafkasparkjob_operator.decisions.checks.start_refusals import refused_prefix, refused_state
from kafkasparkjob_operator.decisions.endings import ORDERLY
from kafkasparkjob_operator.decisions.lifecycle.snapshots import last_snapshot
from kafkasparkjob_operator.decisions.lifecycle.target import target_deleted
from kafkasparkjob_operator.decisions.plan import (
    NEEDS_LIVE,
    NOTHING,
    Action,
    CreateSnapshot,
    DeletePod,
    HoldResource,
    Plan,
    ReleaseResource,
    deletions,
)
from kafkasparkjob_operator.decisions.restarts import record_ending
from kafkasparkjob_operator.decisions.running import adopt
from kafkasparkjob_operator.decisions.standby import standby_pods
from kafkasparkjob_operator.decisions.starting import last_accepted, submit
from kafkasparkjob_operator.observation.observation import AttemptRecord, JobResource, Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.observation.state_view import StateKind
from kafkasparkjob_operator.resources.acceptance import accepted_job
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason, StopReason
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState, SnapshotTrigger
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import DeletionPolicy, DesiredJob, JobSettings, deletion_of
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.report import DriverState, Report

RETRY_SECONDS = 5.0
"""Pause between a failed attempt to settle and the next attempt."""
LOOK_AGAIN_SECONDS = 10.0
SNAPSHOT_LOOK_SECONDS = 5.0
"""The watch usually brings the last snapshot sooner."""
CANCEL_SECONDS = 5
"""Grace period of the pods of a job that is cancelled."""
EXPIRED_SECONDS = 60.0
"""By which a coordinator is late with the end of a transaction: it looks for such transactions every 10 s."""
SERVERS_CHARACTERS = 300
"""Bootstrap addresses in the command of an event. With the longest prefix the cause still has room."""
NAMESPACE_ENDS = "because it is being terminated"
"""What the API server answers to every creation in a namespace that is being deleted."""
_COLLECTED_FIRST = frozenset({"foregroundDeletion", "orphan"})
"""Kubernetes' own finalizers, under which it deletes or disowns what the resource owns before the resource goes."""


def hold_change(
    draft: StatusDraft, job: JobResource, desired: DesiredJob | None, report: Report | None, *, limit: float
) -> tuple[Action, ...]:
    """Adds or removes the finalizer; called for a resource that is not being deleted.

    The finalizer stays after a change to a job that needs none, until an attempt with the changed resource has settled
    all earlier transactions. ``Orphan`` removes it at once.

    :param desired: None where the resource is invalid: nothing changes then.
    :param limit: the longest time that a deletion may wait; no resource is held where it is 0.
    """
    if limit <= 0:
        return (ReleaseResource(),) if job.held else ()
    if desired is None:
        return ()
    sink, attempt, deletion = desired.spec.sink, draft.section("attempt"), desired.deletion
    if deletion is not None and deletion.policy is DeletionPolicy.ORPHAN:
        return (ReleaseResource(),) if job.held else ()
    snapshot = deletion is not None and deletion.snapshot
    if snapshot or (sink.delivery_guarantee.transactional and (deletion is not None or not sink.transactions_expire)):
        return () if job.held else (HoldResource(),)
    recovered = (
        report is not None
        and report.attempt == attempt.get("id")
        and report.state is DriverState.RUNNING
        and attempt.get("generation") == job.generation
    )
    settled = recovered or not attempt.get("id") or attempt.get("outcome") in ORDERLY
    return (ReleaseResource(),) if job.held and settled else ()


def plan_deletion(observation: Observation, now: datetime, *, limit: float, settings: JobSettings) -> Plan:
    """Decides about a resource that is being deleted.

    Called by the state machine. The condition ``Settled`` has the time at which the deletion began. The attempt's
    ConfigMap says whether the attempt only settles.

    :param limit: seconds after which the finalizer is removed in any case.
    :param settings: the administrator's, for all jobs.
    """
    if not observation.job.held:
        return NOTHING
    if observation.live is None:
        return NEEDS_LIVE
    return _Deletion(with_own_pods(observation), observation.live, now, limit, settings).plan()


def left_open(job: JobResource, why: str) -> JobEvent:
    """The event of a deletion that leaves transactions open: prefix, cause, and the command that ends them."""
    prefix, servers = _prefix(job), _bootstrap_servers(job)
    until = " until their time-out" if _transactions_expire(job) else ""
    message = (
        f"transactions with ids that begin with {prefix!r} may stay open and hold back read_committed readers{until}:"
        f" {why}"
    )
    remedy = (
        f"Abort them: python3 -m sparkapp txn abort --all-lingering --bootstrap {shlex.quote(servers)}"
        f" --prefix {shlex.quote(prefix)} --yes"
    )
    return JobEvent(
        occurrence="left-open", reason=JobReason.TRANSACTIONS_LEFT_OPEN, message=message, remedy=remedy, warning=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    chosen: AttemptRecord
    desired: DesiredJob


class _Deletion:
    def __init__(
        self, observation: Observation, live: Live, now: datetime, limit: float, settings: JobSettings
    ) -> None:
        self.observation = observation
        self.job = observation.job
        self.live = live
        asked = deletion_of(observation.job.spec)
        self.policy = DeletionPolicy.DRAIN if asked is None else asked.policy
        self.snapshot = asked is not None and asked.snapshot
        self.limit = limit if asked is None else min(limit, float(asked.deadline_seconds))
        self.settings = settings_of(observation, settings)
        self.draft = StatusDraft(observation.job, now)
        self.attempt = current_attempt(observation)
        self.record = record_of(live, self.attempt, self.job.identity.uid)
        self.driver = next((pod for pod in own_drivers(observation) if pod.attempt == self.attempt), None)
        self.others = [pod for pod in (*observation.pods, *standby_pods(observation).pods) if pod is not self.driver]
        self.actions: list[Action] = []

    @property
    def settles(self) -> bool:
        """True where the current attempt was started for the deletion."""
        return self.record is not None and self.record.settles

    def plan(self) -> Plan:
        """The steps of the deletion; the last step removes the finalizer."""
        if not attempts_ran(self.observation, self.live):
            return self._release()
        running = self.driver if self.driver is not None and not self.driver.finished else None
        # A driver that is next may have begun, and its transactions are open then.
        is_alone = not any(pod.is_next for pod in self.others)
        if running is None and is_alone and (self._ended_in_order() or self._has_nothing_open()):
            return self._snapshot() or self._release()
        waits_not = self._waits_not(running)
        if waits_not is not None:
            return self._release(waits_not)
        left = self._seconds_left()
        if left is None:
            # Written before anything is tried: the time is limited whatever becomes of the first try.
            return self._wait("Deleting", "the deletion waits until the job's transactions are settled", seconds=0)
        if left <= 0:
            return self._release(f"they were not settled within {self.limit:.0f} s{self._trouble()}")
        seconds = min(left, LOOK_AGAIN_SECONDS)
        return self._settle(seconds) if running is None else self._run(running, seconds)

    def _snapshot(self) -> Plan | None:
        """Waits for the snapshot of ``spec.deletion.snapshot``; None where there is none to wait for.

        No transaction is open any more, so it holds the last checkpoint. The deadline limits it as all else.
        """
        if not self.snapshot or self.policy is DeletionPolicy.ORPHAN or not self.draft.section("checkpoint").get("id"):
            return None
        identity = self.job.identity
        name, found = names.deletion_snapshot(identity.name, identity.uid), last_snapshot(self.observation)
        if found is not None and found.state == SnapshotState.READY:
            message = f"snapshot {name} holds checkpoint {found.checkpoint} of the deleted job"
            self.draft.event("last-snapshot", JobReason.SNAPSHOT_MADE, message)
            return None
        left = self._seconds_left()
        failed = found is not None and found.state == SnapshotState.FAILED
        if failed or (left is not None and left <= 0):
            why = found.message if found is not None and found.message else "it is not Ready by the deadline"
            message = f"the job is deleted without snapshot {name} (spec.deletion.snapshot): {why}"
            self.draft.event("last-snapshot", JobReason.SNAPSHOT_FAILED, message, warning=True)
            return None
        if found is None and left is not None:  # the time is limited before anything is tried
            self.actions.append(CreateSnapshot(name=name, trigger=SnapshotTrigger.DELETION, owned=False))
        seconds = 0.0 if left is None else min(left, SNAPSHOT_LOOK_SECONDS)
        return self._wait(str(JobReason.SNAPSHOTTING), f"the deletion waits for snapshot {name}", seconds=seconds)

    def _waits_not(self, running: PodView | None) -> str | None:
        """Why the resource is let go at once; empty where that leaves nothing open, None where it waits."""
        if self.policy is DeletionPolicy.ORPHAN:
            return "spec.deletion.policy is Orphan"
        if not _COLLECTED_FIRST & {*self.job.finalizers}:
            return None
        # What an attempt needs is deleted meanwhile, and a driver that runs is asked to stop.
        return "the resource is deleted with the propagation policy Foreground or Orphan" if running is None else ""

    def _run(self, driver: PodView, seconds: float) -> Plan:
        """The driver has not ended: a driver that settles continues, any other driver is stopped."""
        adopt(self.draft, driver, lambda: self.live, self.job.identity, self.settings)
        self._delete(*(pod for pod in self.others if pod.attempt != self.attempt or pod.role == names.ROLE_DRIVER))
        if self.settles:
            return self._wait("Settling", f"attempt {self.attempt} settles the transactions", seconds=seconds)
        self.draft.section("attempt")["stopReason"] = str(StopReason.DELETE)
        self._delete(driver)
        reason, message = "Draining", "the driver drains at a checkpoint: the resource is being deleted"
        if self.policy is DeletionPolicy.CANCEL:
            message = f"the driver has {CANCEL_SECONDS} s to stop: the resource is being deleted"
            reason = "Cancelling"
        self.draft.event(f"stop/{self.attempt}/{StopReason.DELETE}", JobReason.DELETING, message)
        return self._wait(reason, message, seconds=seconds)

    def _settle(self, seconds: float) -> Plan:
        """No driver runs, and the last attempt did not end in order."""
        self._delete(*self.others)
        failure = self.draft.section("lastFailure")
        mine = self.settles and failure.get("attempt") == self.attempt
        if mine and failure.get("fatal") is True:
            return self._release(self._trouble().removeprefix("; "))
        choice = self._choice()
        if choice is None:
            return self._release("the resource is invalid, and so is the spec of the last attempt")
        # A prefix that is no longer allowed has to be settled, too.
        refusal = self.observation.prefix_refusal
        rival = refusal if refusal is not None and refusal.reason == IN_USE else None
        if refused_state(self.draft, self.observation, self.live) or refused_prefix(self.draft, rival):
            return self._release(self.draft.message)
        waits = [*self.others, *([self.driver] if self.driver is not None else [])]
        if waits:
            self._delete(*waits[len(self.others) :])
            return self._wait(
                "WaitingForPods", f"the next attempt waits until pod {waits[0].name} is gone", seconds=seconds
            )
        failed = parse_time(failure.get("time")) if mine else None
        pause = RETRY_SECONDS - abs((self.draft.now - failed).total_seconds()) if failed is not None else 0.0
        pause = max(pause, claimant_seconds(self.draft, self.observation, self.live))
        if pause > 0:
            return self._wait(
                "Settling", "the next attempt to settle the transactions starts after a pause", seconds=pause
            )
        self.actions.extend(
            submit(
                self.draft, self.observation, self.live, desired=choice.desired, chosen=choice.chosen,
                settings=self.settings, settles=True,
            )
        )  # fmt: skip
        return self._finish(seconds)

    def _ended_in_order(self) -> bool:
        if self.driver is not None:
            adopt(self.draft, self.driver, lambda: self.live, self.job.identity, self.settings)
        if self.attempt and not self.draft.section("attempt").get("outcome"):
            record_ending(self.draft, self.observation, self.live, self.driver)
        note_lost_attempt(self.draft, self.observation, self.live)
        return self.draft.section("attempt").get("outcome") in ORDERLY

    def _has_nothing_open(self) -> bool:
        """No attempt has claimed the state, so none has begun a transaction. Or brokers have ended what was open."""
        if self.live.state.kind is StateKind.EMPTY and not self.draft.section("checkpoint").get("id"):
            return True
        choice, failure = self._choice(), self.draft.section("lastFailure")
        ended = parse_time(failure.get("time"))
        if choice is None or ended is None or self.others or failure.get("attempt") != self.attempt:
            return False
        sink = choice.desired.spec.sink
        if not sink.delivery_guarantee.transactional:
            return True
        age = (self.draft.now - ended).total_seconds()
        return sink.transactions_expire and age > sink.transaction_timeout_seconds + EXPIRED_SECONDS

    def _choice(self) -> _Choice | None:
        """The spec of the last attempt: the resource's, or the last valid one."""
        identity = self.job.identity
        try:
            desired = accepted_job(self.job.spec, job=identity, settings=self.settings)
        except ConfigurationError:
            found = last_accepted(self.draft, self.observation, self.live, self.settings)
            return None if found is None else _Choice(chosen=found[0], desired=found[1])
        chosen = AttemptRecord(attempt=0, owner_uid="", generation=self.job.generation, spec=self.job.spec)
        return _Choice(chosen=chosen, desired=desired)

    def _seconds_left(self) -> float | None:
        """None at the first look at the deletion.

        A clock that was set back by more than the limit counts as a limit that has passed.
        """
        conditions = self.job.status.get("conditions") or ()
        found = next((item for item in conditions if item.get("type") == ConditionType.SETTLED), None)
        if found is None:
            return None
        since = parse_time(found.get("lastTransitionTime"))
        return 0.0 if since is None else self.limit - abs((self.draft.now - since).total_seconds())

    def _trouble(self) -> str:
        """Why the last attempt has not settled the transactions, as far as it is known."""
        failure, driver = self.draft.section("lastFailure"), self.driver
        if driver is not None and driver.waiting_reason:
            return f"; pod {driver.name} does not start: {driver.waiting_reason}: {driver.waiting_message}"
        if self.settles and failure.get("attempt") == self.attempt:
            return f"; attempt {self.attempt} failed: {failure.get('reason')}: {failure.get('message')}"
        return f"; {self.job.status.get('message', '')}".removesuffix("; ")

    def _delete(self, *pods: PodView) -> None:
        if self.policy is not DeletionPolicy.CANCEL:
            self.actions.extend(deletions(pods))
            return
        self.actions.extend(deletions(pods, grace_seconds=CANCEL_SECONDS))
        slow = (pod for pod in pods if pod.deleting and not pod.awaits_removal and pod.grace_seconds > CANCEL_SECONDS)
        self.actions.extend(DeletePod(name=pod.name, uid=pod.uid, grace_seconds=CANCEL_SECONDS) for pod in slow)

    def _wait(self, reason: str, message: str, *, seconds: float) -> Plan:
        self.draft.set_state(JobState.DELETING, reason=reason, message=message, phase=Phase.DELETING)
        return self._finish(seconds)

    def _finish(self, seconds: float) -> Plan:
        message = "the finalizer stays until no transaction of the job is open"
        target_deleted(self.draft)
        left = self._seconds_left()
        ends = self.draft.now + timedelta(seconds=self.limit if left is None else left)
        self.draft.enter(Phase.DELETING, deadline=ends)
        self.draft.condition(ConditionType.SETTLED, ConditionStatus.FALSE, reason="Deleting", message=message)
        return Plan(
            actions=tuple(self.actions), status=self.draft.finish(), events=tuple(self.draft.events),
            look_again_after=seconds,
        )  # fmt: skip

    def _release(self, why: str = "") -> Plan:
        """
        :param why: transactions may be left open; empty where none is.
        """
        events = self.draft.events
        if why:
            events = [*events, left_open(self.job, why)]
        elif self.settles:
            message = f"attempt {self.attempt} has settled the transactions of the deleted job"
            settled = JobEvent(
                occurrence=f"settled/{self.attempt}", reason=JobReason.TRANSACTIONS_SETTLED, message=message
            )
            events = [*events, settled]
        return Plan(actions=(ReleaseResource(),), status=self.job.status, events=tuple(events))


def _prefix(job: JobResource) -> str:
    """The prefix of the last attempt's transactional ids."""
    identity, section = job.identity, job.status.get("transactions")
    known = section.get("prefix") if isinstance(section, Mapping) else None
    return str(known or names.default_transactional_id_prefix(identity.namespace, identity.name))


def _bootstrap_servers(job: JobResource) -> str:
    """As many addresses of the sink's cluster as the command has room for; a client finds the others by any of them."""
    sink = job.spec.get("sink")
    kafka = (isinstance(sink, Mapping) and sink.get("kafka")) or job.spec.get("kafka")
    every = str(kafka.get("bootstrapServers", "") if isinstance(kafka, Mapping) else "")
    shown = every if len(every) <= SERVERS_CHARACTERS else every[: SERVERS_CHARACTERS + 1].rpartition(",")[0]
    return shown or every.partition(",")[0]


def _transactions_expire(job: JobResource) -> bool:
    """As :attr:`~sparkapp.model.job.sections.sink.Sink.transactions_expire`, of a spec that may be invalid."""
    sink = job.spec.get("sink")
    section = sink.get("transactions") if isinstance(sink, Mapping) else None
    return not isinstance(section, Mapping) or section.get("timeoutSeconds") != 0
