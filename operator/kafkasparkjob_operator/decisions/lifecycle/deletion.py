"""The deletion of a job whose readers must not wait: its transactions are settled before the resource is removed.

Under ``spec.deletion`` or ``sink.transactions.timeoutSeconds: 0`` the resource has the operator's finalizer. A deletion
stops the driver, as a suspension does or at once. Where the last attempt did not end in order, another attempt runs its
recovery and ends. With ``spec.deletion.state: Delete`` one more attempt removes the query state (ADR 101). The
finalizer is removed after that, or when the time limit has passed (ADR 27, ADR 84).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.attempts import (
    Unsettled,
    attempts_ran,
    claimant_seconds,
    current_attempt,
    is_unclaimed,
    note_lost_attempt,
    own_drivers,
    record_of,
    settings_of,
    unsettled,
)
from kafkasparkjob_operator.decisions.checks.belonging import with_own_pods
from kafkasparkjob_operator.decisions.checks.prefix_needs import IN_USE
from kafkasparkjob_operator.decisions.checks.repairs import is_unchanged
from kafkasparkjob_operator.decisions.checks.start_refusals import refused_prefix, refused_state
from kafkasparkjob_operator.decisions.endings import ORDERLY
from kafkasparkjob_operator.decisions.lifecycle.left_behind import left_open, state_left
from kafkasparkjob_operator.decisions.lifecycle.snapshots import last_snapshot
from kafkasparkjob_operator.decisions.lifecycle.target import target_deleted
from kafkasparkjob_operator.decisions.plan import (
    NEEDS_LIVE,
    NOTHING,
    Action,
    CreateSnapshot,
    DeletePod,
    Plan,
    ReleaseResource,
    deletions,
)
from kafkasparkjob_operator.decisions.restarts import record_ending
from kafkasparkjob_operator.decisions.revisions.refusal import is_refused
from kafkasparkjob_operator.decisions.running import adopt
from kafkasparkjob_operator.decisions.standby import standby_pods
from kafkasparkjob_operator.decisions.starting import next_spec, submit
from kafkasparkjob_operator.observation.observation import AttemptRecord, Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.resources.acceptance import accepted_job
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason, StopReason
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState, SnapshotTrigger
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import DeletionPolicy, DesiredJob, JobSettings, StateOnDelete, deletion_of
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError

RETRY_SECONDS = 5.0
"""Pause between a failed attempt to settle and the next attempt."""
LOOK_AGAIN_SECONDS = 10.0
SNAPSHOT_LOOK_SECONDS = 5.0
"""The watch usually brings the last snapshot sooner."""
CANCEL_SECONDS = 5
"""Grace period of the pods of a job that is cancelled."""
EXPIRED_SECONDS = 60.0
"""By which a coordinator is late with the end of a transaction: it looks for such transactions every 10 s."""
NAMESPACE_ENDS = "because it is being terminated"
"""What the API server answers to every creation in a namespace that is being deleted."""
_NO_SPEC = "the resource is invalid, and so is the spec of the last attempt"
_COLLECTED_FIRST = frozenset({"foregroundDeletion", "orphan"})
"""Kubernetes' own finalizers, under which it deletes or disowns what the resource owns before the resource goes."""


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


class _Deletion:
    def __init__(
        self, observation: Observation, live: Live, now: datetime, limit: float, settings: JobSettings
    ) -> None:
        self.observation = observation
        self.job = observation.job
        self.live = live
        asked = deletion_of(observation.job.spec)
        self.policy = DeletionPolicy.DRAIN if asked is None else asked.policy
        self.snapshot = asked is not None and asked.snapshot and self.policy is not DeletionPolicy.ORPHAN
        self.removes_state = asked is not None and asked.state is StateOnDelete.DELETE
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
        removes = self.record is not None and self.record.removes_state
        return self._removal(running) if removes else self._settlement(running)

    def _settlement(self, running: PodView | None) -> Plan:
        # A driver that is next may have begun, and its transactions are open then.
        is_alone = not any(pod.is_next for pod in self.others)
        if running is None and is_alone and (self._ended_in_order() or self._has_nothing_open()):
            return self._snapshot() or self._remove_state() or self._release()
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
        if not self.snapshot or not self._checkpoint():
            return None
        found, left = last_snapshot(self.observation), self._seconds_left()
        ended = found is not None and found.state in {SnapshotState.READY, SnapshotState.FAILED}
        if ended or (left is not None and left <= 0):
            return None
        name = names.deletion_snapshot(self.job.identity.name, self.job.identity.uid)
        if found is None and left is not None:  # the time is limited before anything is tried
            self.actions.append(CreateSnapshot(name=name, trigger=SnapshotTrigger.DELETION, owned=False))
        seconds = 0.0 if left is None else min(left, SNAPSHOT_LOOK_SECONDS)
        return self._wait(str(JobReason.SNAPSHOTTING), f"the deletion waits for snapshot {name}", seconds=seconds)

    def _checkpoint(self) -> int:
        """The last checkpoint; by the status only where there is no document. No driver reports that of its drain."""
        document = self.live.state.document
        return int(self.draft.section("checkpoint").get("id", 0)) if document is None else document.checkpoint_id

    def _tell_snapshot(self) -> None:
        """The event about the snapshot of a job that goes."""
        identity, found = self.job.identity, last_snapshot(self.observation)
        name = names.deletion_snapshot(identity.name, identity.uid)
        if found is not None and found.state == SnapshotState.READY:
            message = f"snapshot {name} of the deleted job holds {found.message}"
            self.draft.event("last-snapshot", JobReason.SNAPSHOT_MADE, message)
            return
        why = "it does not exist" if found is None else found.message or "it is not Ready"
        why = why if self._checkpoint() else "no checkpoint of the job is known"
        message = f"the job is deleted without snapshot {name} (spec.deletion.snapshot): {why}"
        self.draft.event("last-snapshot", JobReason.SNAPSHOT_FAILED, message, warning=True)

    def _remove_state(self) -> Plan | None:
        """Starts the attempt of ``spec.deletion.state: Delete``; None where there is none to start.

        No transaction of the job is open any more, and its last snapshot is made.
        """
        if not self.removes_state or is_unclaimed(self.draft, self.live):
            return None
        choice = self._next_spec()
        if choice is not None and not choice[1].spec.may_keep_state:
            return None
        self._note_settled()
        why = self._waits_not(None)
        if why is not None or choice is None:
            return self._release(state=why or _NO_SPEC)
        left = self._seconds_left()
        if left is None:  # the time is limited before anything is tried
            return self._wait("RemovingState", "the deletion waits until the job's state is removed", seconds=0)
        if left <= 0:
            return self._release(state=self._late())
        return self._start(choice, min(left, LOOK_AGAIN_SECONDS), removes_state=True)

    def _removal(self, running: PodView | None) -> Plan:
        """The attempt that removes the state has been started; another follows where it fails."""
        left, failure = self._seconds_left() or 0.0, self.draft.section("lastFailure")
        if running is None and self._ended_in_order():
            return self._release()
        why, choice = self._waits_not(running), self._next_spec()
        if why is None and running is None and failure.get("attempt") == self.attempt and failure.get("fatal") is True:
            why = self._trouble().removeprefix("; ")
        if why is None and left <= 0:
            why = self._late()
        if why is not None or choice is None:
            return self._release(state=why or _NO_SPEC)
        seconds = min(left, LOOK_AGAIN_SECONDS)
        return self._start(choice, seconds, removes_state=True) if running is None else self._run(running, seconds)

    def _late(self) -> str:
        return f"it was not removed within {self.limit:.0f} s{self._trouble()}"

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
            assert self.record is not None
            what = "removes the job's state" if self.record.removes_state else "settles the transactions"
            return self._wait("Settling", f"attempt {self.attempt} {what}", seconds=seconds)
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
        failure = self.draft.section("lastFailure")
        if self.settles and failure.get("attempt") == self.attempt and failure.get("fatal") is True:
            return self._release(self._trouble().removeprefix("; "))
        choice = self._next_spec()
        if choice is None:
            return self._release(_NO_SPEC)
        return self._start(choice, seconds, removes_state=False)

    def _start(self, choice: tuple[AttemptRecord, DesiredJob], seconds: float, *, removes_state: bool) -> Plan:
        """Starts an attempt that settles, once the pods of earlier attempts are gone and a pause has passed."""
        self._delete(*self.others)
        failure = self.draft.section("lastFailure")
        mine = self.settles and failure.get("attempt") == self.attempt
        # A prefix that is no longer allowed has to be settled, too.
        refusal = self.observation.prefix_refusal
        rival = refusal if refusal is not None and refusal.reason == IN_USE else None
        if refused_state(self.draft, self.observation, self.live) or refused_prefix(self.draft, rival):
            return self._release(state=self.draft.message) if removes_state else self._release(self.draft.message)
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
            what = "remove the job's state" if removes_state else "settle the transactions"
            return self._wait("Settling", f"the next attempt to {what} starts after a pause", seconds=pause)
        chosen, desired = choice
        self.actions.extend(
            submit(
                self.draft, self.observation, self.live, desired=desired, chosen=chosen, settings=self.settings,
                settles=True, removes_state=removes_state,
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

    def _left(self) -> Unsettled:
        return unsettled(self.draft, self.observation, self.live, self.settings)

    def _has_nothing_open(self) -> bool:
        """Nothing was begun, or brokers have ended what was open."""
        left, failure = self._left(), self.draft.section("lastFailure")
        ended = parse_time(failure.get("time"))
        if not left.possible:
            return True
        if left.seconds is None or ended is None or self.others or failure.get("attempt") != self.attempt:
            return False
        return (self.draft.now - ended).total_seconds() > left.seconds + EXPIRED_SECONDS

    def _next_spec(self) -> tuple[AttemptRecord, DesiredJob] | None:
        """Failures of a settling attempt do not try what is refused, and a resource that is corrected meanwhile is."""
        withheld = is_refused(self.draft) and is_unchanged(self.job)
        desired: DesiredJob | None = None
        with suppress(ConfigurationError):
            desired = accepted_job(self.job.spec, job=self.job.identity, settings=self.settings)
        return next_spec(self.draft, self.observation, self.live, desired, withheld=withheld, settings=self.settings)

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

    def _release(self, why: str = "", *, state: str = "") -> Plan:
        """
        :param why: transactions may be left open; empty where none is.
        :param state: why the state that was to be removed stays.
        """
        if why:
            self.draft.events.append(left_open(self.job, why, left=self._left()))
        elif state:
            self.draft.events.append(state_left(self.job, state))
        elif self.record is not None and self.record.removes_state:
            message = f"attempt {self.attempt} has removed the state of the deleted job, but what snapshots keep"
            self.draft.event("state-removed", JobReason.STATE_REMOVED, message)
        else:
            self._note_settled()
        if self.snapshot:
            self._tell_snapshot()
        return Plan(actions=(ReleaseResource(),), status=self.job.status, events=tuple(self.draft.events))

    def _note_settled(self) -> None:
        if self.settles:
            message = f"attempt {self.attempt} has settled the transactions of the deleted job"
            self.draft.event(f"settled/{self.attempt}", JobReason.TRANSACTIONS_SETTLED, message)
