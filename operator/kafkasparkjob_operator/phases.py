"""The state machine of a job: (resource, what is observed, now) -> Plan. Pure, so that every path is a test.

A job is looked at as a whole each time; nothing is remembered but the status. The order of the questions:

1. Is the driver alive? Then show it, or ask it to stop because the resource says so (suspend, rescale, other spec).
2. Is it stopping, or gone? Then wait until every pod of the attempt is gone, and note how it ended.
3. Nothing is left: may another attempt start, now, later, or not before a person acts?

What awaits its turn beside the attempt (``successor``) is no part of these: it is what step 3 may take instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kafkasparkjob_operator.attempts import current_attempt, own_drivers, record_of, spec_of
from kafkasparkjob_operator.belonging import tell_foreign, with_own_pods
from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.code import changed_code
from kafkasparkjob_operator.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.executors import count_executors, forget_executors
from kafkasparkjob_operator.health import judge_health, judge_transactions
from kafkasparkjob_operator.heartbeat import GRACE_SECONDS, is_superseded, judge_silence
from kafkasparkjob_operator.observation import Live, Observation
from kafkasparkjob_operator.plan import NEEDS_LIVE, NOTHING, Action, Plan, deletions
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.reasons import StopReason
from kafkasparkjob_operator.repairs import rescaled_meanwhile, stay_at_rest
from kafkasparkjob_operator.restarts import note_stability, record_ending, state_while_pods_go
from kafkasparkjob_operator.running import show_numbers, show_report, show_waiting, warn_of_slow_stop
from kafkasparkjob_operator.starting import decide_start
from kafkasparkjob_operator.status import JobState, StatusDraft
from kafkasparkjob_operator.successor import Step, before_stop, beside, stand_by
from kafkasparkjob_operator.workload import Wanted, wanted_from_resource
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.report import Report

LOOK_AGAIN_WHILE_WAITING = 10.0
"""Pod events bring news sooner; this is for the one that got lost."""


def plan(observation: Observation, now: datetime) -> Plan:
    """What to do about a job, and what to say.

    Called by the reconciler with an observation from the cache, and once more with a live one before anything is
    created or deleted. A resource that is being deleted needs nothing: what it owns is collected by Kubernetes.
    """
    if observation.job.deleting:
        return NOTHING
    try:
        return _Planner(observation, now).plan()
    except _LookFirst:
        return NEEDS_LIVE


class _LookFirst(Exception):
    """The cache does not know enough."""


class _Planner:
    def __init__(self, observation: Observation, now: datetime) -> None:
        observation = with_own_pods(observation)
        if observation.foreign and observation.live is None:
            raise _LookFirst
        self.observation = observation
        self.job = observation.job
        self.draft = StatusDraft(observation.job, now)
        self.now = now
        self.attempt = current_attempt(observation)
        self.driver = next((pod for pod in own_drivers(observation) if pod.attempt == self.attempt), None)
        self.beside = beside(observation)
        self.others = [pod for pod in observation.pods if pod is not self.driver and pod not in self.beside.pods]
        self.actions: list[Action] = []
        self.look_again_after: float | None = None
        self.suspend = self.job.spec.get("suspend") is True
        self.wanted = self._judge_config()

    def plan(self) -> Plan:
        stay_at_rest(self.draft, self.job)
        report = self.observation.report
        if report is not None and report.attempt == self.attempt:
            self._relay(report)
            show_numbers(self.draft, report)
        if self.driver is not None and not self.driver.finished and not self.driver.deleting:
            self._alive(self.driver, report if report is not None and report.attempt == self.attempt else None)
        else:
            self._down(self.driver)
        self._delete(tell_foreign(self.draft, self.observation))
        return Plan(
            actions=tuple(self.actions),
            status=self.draft.finish(),
            events=tuple(self.draft.events),
            look_again_after=self.look_again_after,
        )

    def _live(self) -> Live:
        if self.observation.live is None:
            raise _LookFirst
        return self.observation.live

    def _judge_config(self) -> Wanted | None:
        identity = self.job.identity
        try:
            wanted = wanted_from_resource(self.job.spec, namespace=identity.namespace, name=identity.name)
        except ConfigurationError as error:
            message = f"{error.message}; {error.remedy}"
            self.draft.condition(
                ConditionType.CONFIG_VALID, ConditionStatus.FALSE, reason=error.reason, message=message
            )
            self.draft.event(f"invalid/{self.job.generation}", "ValidationFailed", message, warning=True)
            return None
        self.draft.condition(ConditionType.CONFIG_VALID, ConditionStatus.TRUE, reason="Valid")
        return wanted

    def _relay(self, report: Report) -> None:
        """Publishes what the driver has to say, each once."""
        attempt = self.draft.section("attempt")
        seen = attempt.get("eventSequence", 0) if attempt.get("id") == self.attempt else 0
        for event in report.events:
            if event.sequence > seen:
                occurrence = f"report/{report.attempt}/{event.sequence}"
                self.draft.event(occurrence, event.reason, event.message, warning=event.type == "Warning")
                seen = event.sequence
        if attempt.get("id") == self.attempt and seen:
            attempt["eventSequence"] = seen

    def _alive(self, driver: PodView, report: Report | None) -> None:
        self._adopt(driver)
        # Pods of former attempts beside a live driver: whoever made them, they must not write.
        self._delete(pod for pod in self.others if pod.attempt != self.attempt or pod.role == names.ROLE_DRIVER)
        executors = [pod for pod in self.others if pod.attempt == self.attempt]
        again = count_executors(self.draft, executors, started=driver.started)
        if self._stops(driver) or self._silent(driver, report):
            return
        self._look_again(again)
        if self.wanted is not None:
            self._take(stand_by(self.draft, self.observation, self._live, self.wanted, self.beside, report=report))
        current = self.draft.section("attempt").get("generation") == self.job.generation
        if driver.started:
            show_report(self.draft, driver, executors, report, current=current)
        else:
            show_waiting(self.draft, driver)
        self._look_again(judge_health(self.draft, report, self.wanted, self.job.identity.key))
        self._look_again(note_stability(self.draft, self.job.spec))

    def _silent(self, driver: PodView, report: Report | None) -> bool:
        """A driver that no longer reports: nothing of what its report says is known, and in the end it is replaced."""
        found = judge_silence(self.draft, self.observation, driver, report, heir=self._heir(), look=self._live)
        self._look_again(found.change_after)
        if found.lost:
            self.actions.extend(deletions([driver], grace_seconds=GRACE_SECONDS))
        if found.stale:
            judge_transactions(self.draft, None, self.wanted, self.job.identity.key)
        return found.stale

    def _adopt(self, driver: PodView) -> None:
        """A driver whose start is not in the status: it was lost, or the operator stopped in between."""
        section = self.draft.section("attempt")
        if section.get("id") == self.attempt and section.get("driverPodUID") == driver.uid:
            return
        if section.get("id") != self.attempt:
            record = record_of(self._live(), self.attempt, self.job.identity.uid)
            section.clear()
            section.update(id=self.attempt, generation=record.generation if record is not None else 0)
            section["startedAt"] = format_time(self.now)
        section.update(driverPod=driver.name, driverPodUID=driver.uid)

    def _stops(self, driver: PodView) -> bool:
        """Asks the driver to stop where the resource wants something else; it drains at a checkpoint."""
        if self.suspend:
            self._delete(self.beside.pods)
            self._stop(
                driver, StopReason.SUSPEND, JobState.SUSPENDING, "Suspending",
                "draining at a checkpoint, because spec.suspend is true",
            )  # fmt: skip
            return True
        changed = changed_code(self.draft, self.observation)
        if changed:
            self._delete(self.beside.pods)
            self._stop(driver, StopReason.SPEC_CHANGE, JobState.RESTARTING, "CodeChanged", changed)
            return True
        attempt = self.draft.section("attempt")
        if self.wanted is None or attempt.get("generation") == self.job.generation:
            return False
        running = spec_of(self._live(), self.attempt, self.job.identity)
        if running is not None and running.same_application(self.wanted):
            attempt["generation"] = self.job.generation
            return False
        if self._prepares(driver):
            return True
        before, after = self.draft.parallelism, self.wanted.spec.parallelism
        if running is not None and before and before != after:
            message = f"rescaling from {before} to {after}: draining at a checkpoint"
            self._stop(driver, StopReason.RESCALE, JobState.RESCALING, "RescaleStarted", message)
        else:
            message = f"the resource has changed (generation {self.job.generation}): draining at a checkpoint"
            self._stop(driver, StopReason.SPEC_CHANGE, JobState.RESTARTING, "SpecChanged", message)
        return True

    def _prepares(self, driver: PodView) -> bool:
        """Before the driver is asked to stop for the changed resource: True while its successor comes up."""
        assert self.wanted is not None
        if not driver.started:
            return False
        step = before_stop(self.draft, self.observation, self._live, self.wanted, self.beside)
        self._take(step)
        if not step.preparing:
            return False
        before, after = self.draft.parallelism, self.wanted.spec.parallelism
        message = (
            f"attempt {self.attempt} goes on until its successor, of generation {self.job.generation}, is prepared"
        )
        state = JobState.RESCALING if before and before != after else JobState.RESTARTING
        self.draft.set_state(state, reason="PreparingSuccessor", message=message)
        return True

    def _take(self, step: Step) -> None:
        self.actions.extend(step.actions)
        self._look_again(step.look_again_after)

    def _stop(self, driver: PodView, why: StopReason, state: JobState, reason: str, message: str) -> None:
        self.draft.section("attempt")["stopReason"] = str(why)
        self.draft.set_state(state, reason=reason, message=message)
        self.draft.event(f"stop/{driver.attempt}/{why}", reason, message)
        self._delete([driver])

    def _down(self, driver: PodView | None) -> None:
        """The driver stops, has finished or is gone."""
        self.draft.section("source").pop("lagRecords", None)
        live = self._live()
        heir = self._heir()
        if driver is not None and not driver.finished:
            if heir is None or not is_superseded(self.draft, heir):
                self._wait_for_drain(driver)
                return
            self._delete(pod for pod in self.others if pod.attempt == self.attempt)
            self.others = [pod for pod in self.others if pod.attempt != self.attempt]
            driver = None
        forget_executors(self.draft)
        judge_health(self.draft, None, self.wanted, self.job.identity.key)
        self.others.extend(self.beside.pods if heir is None else self.beside.but_standing)
        self._delete(self.others)
        attempt = self.draft.section("attempt")
        if self.attempt and not attempt.get("outcome"):
            if driver is not None:
                self._adopt(driver)
            record_ending(self.draft, self.observation, live, driver)
            rescaled_meanwhile(self.draft, self.job, record_of(live, self.attempt, self.job.identity.uid))
        if self.others or (driver is not None and driver.deleting):
            self._wait_for_pods([*self.others, *([driver] if driver is not None and driver.deleting else [])])
            return
        decision = decide_start(
            self.draft, self.observation, live, self.wanted, suspend=self.suspend, clear=driver is None, successor=heir
        )
        if heir is not None and self.draft.state in {JobState.FAILED, JobState.FINISHED}:
            self._delete(self.beside.pods)
        if decision.ready and driver is not None:
            # Kept until now for kubectl logs; the next attempt starts when it is gone.
            self._delete([driver])
            self._wait_for_pods([driver])
            return
        self.actions.extend(decision.actions)
        self._look_again(decision.look_again_after)

    def _heir(self) -> PodView | None:
        return None if self.suspend or self.wanted is None else self.beside.heir(self.job.generation, self.wanted)

    def _wait_for_drain(self, driver: PodView) -> None:
        self._delete(pod for pod in self.others if pod.attempt != self.attempt)
        if not self.draft.section("attempt").get("stopReason"):
            message = f"the driver pod {driver.name} is being deleted, not by the operator; another attempt follows"
            self.draft.set_state(JobState.RESTARTING, reason="DriverStopping", message=message)
        self._warn_if_slow([driver])

    def _wait_for_pods(self, pods: list[PodView]) -> None:
        if self.draft.state in {"", JobState.PENDING, JobState.STARTING, JobState.RUNNING}:
            self.draft.set_state(
                state_while_pods_go(self.draft, self.attempt),
                reason="WaitingForPods",
                message=f"{len(pods)} pod(s) of former attempts have to go first: {pods[0].name}",
            )
        self._warn_if_slow(pods)

    def _warn_if_slow(self, pods: list[PodView]) -> None:
        self._look_again(LOOK_AGAIN_WHILE_WAITING)
        warn_of_slow_stop(self.draft, pods)

    def _delete(self, pods: Iterable[PodView]) -> None:
        self.actions.extend(deletions(pods))

    def _look_again(self, seconds: float | None) -> None:
        if seconds is not None and (self.look_again_after is None or seconds < self.look_again_after):
            self.look_again_after = seconds
