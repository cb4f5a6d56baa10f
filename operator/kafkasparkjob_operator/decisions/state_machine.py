"""The state machine of a job: (resource, observation, now) -> Plan. Pure, so that every path has a test.

Each plan considers the whole job; only the status remembers anything. The order of the questions:

1. Is the driver alive? Then show it, or stop it because the resource says so (suspend, rescale, other spec).
2. Is it stopping, or gone? Then wait until every pod of the attempt is gone, and record how it ended.
3. Nothing is left: may another attempt start now, later, or only after a person acts?

A standby driver is no part of these questions: step 3 may activate it instead of a new attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from kafkasparkjob_operator.decisions import running
from kafkasparkjob_operator.decisions.attempts import current_attempt, own_drivers, record_of, settings_of
from kafkasparkjob_operator.decisions.checks import heartbeat
from kafkasparkjob_operator.decisions.checks.belonging import report_foreign, with_own_pods
from kafkasparkjob_operator.decisions.checks.code import changed_code, missing_code, note_code
from kafkasparkjob_operator.decisions.checks.health import judge_health, judge_transactions
from kafkasparkjob_operator.decisions.checks.idle_subtasks import tell_idle_subtasks
from kafkasparkjob_operator.decisions.checks.in_place import InPlace, rescale_in_place, show_rescaling
from kafkasparkjob_operator.decisions.checks.repairs import rescaled_meanwhile, stay_at_rest
from kafkasparkjob_operator.decisions.checks.specification import judge_specification
from kafkasparkjob_operator.decisions.executors import count_executors, forget_executors
from kafkasparkjob_operator.decisions.lifecycle.autoscaling import scaling
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.effective import own_parallelism, with_effective_parallelism
from kafkasparkjob_operator.decisions.lifecycle.deletion import plan_deletion
from kafkasparkjob_operator.decisions.lifecycle.expiry import Expiry, expiry
from kafkasparkjob_operator.decisions.lifecycle.holding import hold_change
from kafkasparkjob_operator.decisions.lifecycle.pause import end_pause, runs, show_paused
from kafkasparkjob_operator.decisions.lifecycle.snapshots import Snapshots, keep_snapshots, snapshot_first
from kafkasparkjob_operator.decisions.lifecycle.target import decide_target
from kafkasparkjob_operator.decisions.plan import NEEDS_LIVE, Action, Plan, Silence, deletions
from kafkasparkjob_operator.decisions.restarts import note_stability, record_ending, show_pods_going
from kafkasparkjob_operator.decisions.revisions import refusal, upgrade
from kafkasparkjob_operator.decisions.standby import (
    Step,
    before_stop,
    name_next,
    show_preparing,
    stand_by,
    standby_pods,
    take_over,
)
from kafkasparkjob_operator.decisions.starting import AWAIT_RESTART_SECONDS, Decision, decide_start
from kafkasparkjob_operator.observation.observation import Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.resources.driver_pod import TERMINATION_GRACE_SECONDS
from kafkasparkjob_operator.status.phases import DELETION_SECONDS, Phase
from kafkasparkjob_operator.status.reasons import JobReason, StopReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import NO_SETTINGS, DesiredJob, JobSettings
from sparkapp.model import names
from sparkapp.model.report import DriverState, Report


def plan(
    observation: Observation,
    now: datetime,
    *,
    deletion_seconds: float = DELETION_SECONDS,
    settings: JobSettings = NO_SETTINGS,
) -> Plan:
    """Decides about a job: actions, status and events.

    Called by the reconciler with an observation from the cache, and again with a live observation before anything is
    created or deleted. A resource that is being deleted needs nothing, unless the operator's finalizer holds it:
    Kubernetes collects the objects that it owns.

    :param deletion_seconds: the longest time for which the finalizer holds a resource; 0 for no finalizer.
    :param settings: the administrator's, for all jobs.
    """
    if observation.job.deleting:
        return plan_deletion(observation, now, limit=deletion_seconds, settings=settings)
    try:
        return _Planner(observation, now, deletion_seconds, settings).result()
    except _LookFirst:
        return NEEDS_LIVE


class _LookFirst(Exception):
    """The cached observation is not enough: a live look is needed."""


class _Planner:
    def __init__(self, observation: Observation, now: datetime, deletion_seconds: float, settings: JobSettings) -> None:
        observation = with_own_pods(observation)
        if observation.foreign and observation.live is None:
            raise _LookFirst
        self.of_spec = own_parallelism(observation.job)
        observation = replace(observation, job=with_effective_parallelism(observation.job))
        self.observation = observation
        self.job = observation.job
        self.draft = StatusDraft(observation.job, now)
        self.now = now
        self.deletion_seconds = deletion_seconds
        self.attempt = current_attempt(observation)
        self.driver = next((pod for pod in own_drivers(observation) if pod.attempt == self.attempt), None)
        self.actions: list[Action] = []
        self.look_again_after: float | None = None
        self.silence = Silence()
        self.rescaling = 0
        self.preparing = self.withdrawn = self.restarts = self.awaits_restart = self.asks_room = False
        self.step = Step()
        self.suspend = self.job.spec.get("suspend") is True
        self.settings = settings_of(observation, settings)
        self.desired = judge_specification(self.draft, self.job, self.settings)
        self.standbys = standby_pods(observation, self.desired)
        self.others = [pod for pod in observation.pods if pod is not self.driver and pod not in self.standbys.pods]

    def _pause(self) -> None:
        """Shows what is there. Nothing is started, stopped or changed, and nothing is noted as done."""
        report = self.observation.report
        if report is not None and report.attempt != self.attempt:
            report = None
        if report is not None:
            running.relay_events(self.draft, report)
            running.show_numbers(self.draft, report)
        driver = self.driver if runs(self.observation, self.driver, report) else None
        executors = [pod for pod in self.others if pod.attempt == self.attempt]
        self._judge(None if driver is None else report)
        show_paused(self.draft, self.job, driver, executors, report)
        self.silence = heartbeat.silence_of(self.observation, driver, report) if driver else Silence()

    def _plan(self) -> None:
        end_pause(self.draft)
        stay_at_rest(self.draft, self.job, self.desired)
        refusal.forget_refusal(self.draft, self.observation, self.desired, self._live)
        if self.driver is not None:
            running.adopt(self.draft, self.driver, self._live, self.job.identity, self.settings)
            note_code(self.draft, self.observation, self.driver)
            if not self.driver.deleting and self.draft.section("attempt").pop("stopReason", None):
                self._live()  # the cache may not know yet that the pod is being deleted
        decide_target(self.draft, self.observation, self.desired, self.settings)
        report = self.observation.report
        if report is not None and report.attempt == self.attempt:
            running.relay_events(self.draft, report)
            running.show_numbers(self.draft, report)
        if self.driver is not None and not self.driver.finished and not self.driver.deleting:
            self._alive(self.driver, report if report is not None and report.attempt == self.attempt else None)
        else:
            self._down(self.driver)
        self._delete(report_foreign(self.draft, self.observation))
        self._take(keep_snapshots(self.draft, self.observation, self.desired))
        self.actions.extend(hold_change(self.draft, self.job, self._to_run(), report, limit=self.deletion_seconds))

    def result(self) -> Plan:
        (self._pause if self.job.paused else self._plan)()
        return Plan(
            actions=tuple(self.actions), status=self.draft.finish(), events=tuple(self.draft.events),
            look_again_after=self.look_again_after, silence=self.silence, restarts=self.restarts,
            awaits_restart=self.awaits_restart, asks_room=self.asks_room,
        )  # fmt: skip

    def _to_run(self) -> DesiredJob | None:
        return upgrade.spec_to_run(self.draft, self.observation, self.desired, self._live, self.settings)

    def _refuse(self, cause: refusal.Cause) -> None:
        refusal.refuse(self.draft, self.observation, self.desired, cause)
        decide_target(self.draft, self.observation, self.desired, self.settings)

    def _live(self) -> Live:
        if self.observation.live is None:
            raise _LookFirst
        return self.observation.live

    def _alive(self, driver: PodView, report: Report | None) -> None:
        # Pods of previous attempts next to a live driver must not write, regardless of their creator.
        self._delete(pod for pod in self.others if pod.attempt != self.attempt or pod.role == names.ROLE_DRIVER)
        executors = [pod for pod in self.others if pod.attempt == self.attempt]
        counted = count_executors(self.draft, executors, started=driver.started)
        self.actions.extend(counted.numbered)
        if self._stops(driver, report):
            self._judge(None if heartbeat.silence_of(self.observation, driver, report).stale else report)
            return
        if self._silent(driver, report):
            return
        self._look_again(counted.look_again_after)
        if not (self.desired is None or self.rescaling or self.preparing or refusal.is_refused(self.draft)):
            self._take(stand_by(self.draft, self.observation, self._live, self.desired, self.standbys, report=report))
        self._judge(report)
        self._take(scaling.autoscale(
            self.observation, self.draft, executors, report, self._to_run(), of_spec=self.of_spec,
            withdrawn=self.withdrawn,
        ))  # fmt: skip
        current = self.draft.section("attempt").get("generation") == self.job.generation
        if self.rescaling:
            show_rescaling(self.draft, driver, executors, self.rescaling, report)
        elif self.preparing and self.desired is not None:
            show_preparing(self.draft, self.observation, self.desired, self.step)
        elif driver.started:
            running.show_report(
                self.draft, driver, executors, report, job=self.job.identity.key, current=current,
                idle=tell_idle_subtasks(self.draft, report, self.desired),
            )  # fmt: skip
        else:
            running.show_waiting(
                self.draft, driver, self.job.identity.key, default_image=not self.job.spec.get("image")
            )
        self._look_again(note_stability(self.draft, self.job.spec))
        if self.desired is not None:
            self._look_again(upgrade.note_stable(self.draft, self.observation, self.desired, report, self._live))

    def _judge(self, report: Report | None) -> None:
        self._look_again(judge_health(self.draft, report, self.desired, self.job.identity.key, self.observation.ages))

    def _silent(self, driver: PodView, report: Report | None) -> bool:
        """True for a driver that no longer reports: its last report says nothing about the present."""
        self.silence = found = heartbeat.judge_silence(
            self.draft, self.observation, driver, report, standby=self._standby(), look=self._live
        )
        if found.lost:
            self.actions.extend(deletions([driver], grace_seconds=heartbeat.GRACE_SECONDS))
        if found.stale:
            judge_transactions(self.draft, None, self.desired, self.job.identity.key, self.observation.ages)
        return found.stale

    def _stops(self, driver: PodView, report: Report | None) -> bool:
        """Stops the driver where the resource asks for something else; it drains at a checkpoint."""
        if self.suspend:
            self._delete(self.standbys.pods)
            message = "the driver drains at a checkpoint: spec.suspend is true"
            self._stop(driver, StopReason.SUSPEND, JobState.SUSPENDING, JobReason.SUSPENDING, message)
            return True
        changed = changed_code(self.draft, self.observation, driver.code)
        if changed and not self.observation.may_restart:
            self.awaits_restart = True
            self._look_again(AWAIT_RESTART_SECONDS)
        elif changed and not (self.desired is not None and self._prepares(self.desired, driver, report, code=True)):
            self.restarts = True
            self._delete(self.standbys.superseded if self.standbys.revision else self.standbys.pods)
            self._stop(driver, StopReason.SPEC_CHANGE, JobState.RESTARTING, JobReason.CODE_CHANGED, changed)
            return True
        return self._gives_up(driver) or self._changes(driver, report)

    def _changes(self, driver: PodView, report: Report | None) -> bool:
        """Stops the driver for a changed resource, when nothing is known against the change."""
        is_current = self.draft.section("attempt").get("generation") == self.job.generation
        refuses = refusal.refuses_revision(self.draft)
        if refuses and not is_current and self.desired is not None:
            self._prepares(self.desired, driver, report)
        desired, back = self._to_run(), refusal.has_gone_back(self.draft)
        if desired is None or not scaling.rescale_due(self.draft, driver, report, desired, current=is_current):
            return False
        in_place = rescale_in_place(
            self.draft, self.observation, self._live(), driver, report, desired=desired, settings=self.settings
        )
        if in_place is not None:
            self._take(in_place)
            self.rescaling, self.withdrawn = in_place.rescaling, in_place.withdrawn
            if in_place.refusal is not None:
                self._refuse(in_place.refusal)
            return False
        waits = not (back or refuses) and self._prepares(desired, driver, report)
        if waits or heartbeat.silence_of(self.observation, driver, report, standby=self._standby()).lost:
            return False
        before, after = self.draft.parallelism, desired.spec.parallelism
        if before and before != after:
            message = f"the driver drains at a checkpoint: parallelism changes from {before} to {after}"
            self._stop(driver, StopReason.RESCALE, JobState.RESCALING, JobReason.RESCALE_STARTED, message)
        else:
            message = f"the driver drains at a checkpoint: the spec has changed (generation {self.job.generation})"
            self._stop(driver, StopReason.SPEC_CHANGE, JobState.RESTARTING, JobReason.SPEC_CHANGED, message)
        return True

    def _gives_up(self, driver: PodView) -> bool:
        """Stops an attempt whose revision does not become stable: the job goes back."""
        if not self._goes_back(driver):
            return False
        why = self.draft.refusal["message"]
        self._stop(driver, StopReason.ROLLBACK, JobState.RESTARTING, JobReason.ROLLED_BACK, why)
        return True

    def _goes_back(self, driver: PodView | None) -> bool:
        verdict = upgrade.judge_revision(self.draft, self._live, self.desired, driver=driver)
        self._look_again(verdict.look_again_after)
        if verdict.cause is not None:
            self._refuse(verdict.cause)
            upgrade.go_back(self.draft)
        return verdict.cause is not None

    def _prepares(self, desired: DesiredJob, driver: PodView, report: Report | None, *, code: bool = False) -> bool:
        """True while the driver is not stopped for the change: its standby driver or its snapshot is made, or fails."""
        if code and not (desired.upgrade.is_blue_green or desired.upgrade.snapshot):
            return False
        missing = missing_code(self.draft, self.observation, self._live())
        if missing is not None:
            self._refuse(missing)
            return True
        works = report is not None and report.state is DriverState.RUNNING
        if not works and refusal.is_refused(self.draft):
            return True  # it has the spec that worked, and comes up
        if not driver.started:
            return False
        step = Step()
        if not code or desired.upgrade.is_blue_green:
            step = before_stop(self.draft, self.observation, self._live, desired, self.standbys, works=works)
        self.step = step = snapshot_first(self.draft, self.observation, desired, step, works=works)
        self._take(step)
        if step.refusal is not None:
            self._refuse(step.refusal)
        elif not step.preparing:
            refusal.accept(self.draft)
        self.preparing = step.preparing and not refusal.is_refused(self.draft)
        return self.preparing or refusal.is_refused(self.draft)

    def _take(self, step: Step | Expiry | Snapshots | scaling.Scaling | Decision | InPlace) -> None:
        self.asks_room = self.asks_room or (isinstance(step, scaling.Scaling) and step.asks_room)
        self.actions.extend(step.actions)
        self._look_again(step.look_again_after)

    def _stop(self, driver: PodView, why: StopReason, state: JobState, reason: str, message: str) -> None:
        self.draft.section("attempt")["stopReason"] = str(why)
        grace = None if why is StopReason.SUSPEND else upgrade.grace_of(self.desired)
        ends = self.now + timedelta(seconds=grace or TERMINATION_GRACE_SECONDS)
        self.draft.set_state(state, reason=reason, message=message, phase=Phase.STOPPING, deadline=ends)
        self.draft.event(f"stop/{driver.attempt}/{why}", reason, message)
        self.actions.extend(name_next(self.observation, self.desired, self._standby()))
        self.actions.extend(deletions([driver], grace_seconds=grace))

    def _down(self, driver: PodView | None) -> None:
        """The driver is stopping, has finished or is gone."""
        running.forget_rates(self.draft)
        live = self._live()
        if (taken := take_over(self.draft, self.observation, live, self.settings)) is not None:
            self.actions.extend(taken)
            return
        standby = self._standby()
        if driver is not None and not driver.finished:
            if not heartbeat.is_superseded(self.draft, standby, self.desired):
                self._wait_for_drain(driver)
                return
            self._delete(pod for pod in self.others if pod.attempt == self.attempt)
            self.others = [pod for pod in self.others if pod.attempt != self.attempt]
            driver = None
        self._forget()
        attempt = self.draft.section("attempt")
        if self.attempt and not attempt.get("outcome"):
            record_ending(self.draft, self.observation, live, driver)
            record = record_of(live, self.attempt, self.job.identity.uid)
            rescaled_meanwhile(self.draft, self.observation, self.desired, record)
            aborted = upgrade.aborted_drain(self.draft, self.job.identity, self.desired)
            if aborted is not None and not refusal.is_refused(self.draft):
                self._refuse(aborted)
        self._goes_back(None)
        standby = self._standby()  # not after every ending
        unused = self.standbys.pods if standby is None else self.standbys.superseded
        self.others.extend(self.standbys.waited_for(unused, suspend=self.suspend))
        going = [*self.others, *([driver] if driver is not None and driver.deleting else [])]
        self._delete(going)
        if going:
            self._wait_for_pods(going)
            return
        decision = decide_start(
            self.draft, self.observation, live, self.desired, suspend=self.suspend, clear=driver is None,
            standby=standby, settings=self.settings,
        )  # fmt: skip
        if standby is not None and self.draft.state in {JobState.FAILED, JobState.FINISHED}:
            self._delete(self.standbys.pods)
        if decision.ready and driver is not None:
            # The pod was kept for kubectl logs; the next attempt starts after its deletion.
            self._delete([driver])
            self._wait_for_pods([driver])
            return
        self.restarts, self.awaits_restart = decision.restarts, decision.awaits_restart
        self._take(decision)
        self._take(expiry(self.draft, self.desired))

    def _standby(self) -> PodView | None:
        desired = None if self.suspend or refusal.replaced_by_nothing(self.draft) else self.desired
        return None if desired is None else self.standbys.usable(self.draft, self.job.generation, desired)

    def _forget(self) -> None:
        """The driver is gone, or its grace period has passed: its last report is out of date."""
        forget_executors(self.draft)
        self._judge(None)

    def _wait_for_drain(self, driver: PodView) -> None:
        self._delete(pod for pod in self.others if pod.attempt != self.attempt)
        if driver.gone_by is not None and driver.gone_by <= self.now:
            self._forget()
        running.show_stopping(self.draft, driver, suspend=self.suspend)
        self._look_again(running.warn_of_slow_stop(self.draft, [driver], self.job.identity.key))

    def _wait_for_pods(self, pods: list[PodView]) -> None:
        show_pods_going(self.draft, pods, self.attempt)
        self._look_again(running.warn_of_slow_stop(self.draft, pods, self.job.identity.key))

    def _delete(self, pods: Iterable[PodView]) -> None:
        self.actions.extend(deletions(pods))

    def _look_again(self, seconds: float | None) -> None:
        if seconds is not None and (self.look_again_after is None or seconds < self.look_again_after):
            self.look_again_after = seconds
