"""Whatever happens, in whatever order: never two live attempts, no number twice, and no write without a reason."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkasparkjob_operator.identity import ANNOTATION_CLAIM, ANNOTATION_GENERATION, ANNOTATION_PAUSE
from kafkasparkjob_operator.kubernetes.port import ClusterError
from kafkasparkjob_operator.status.status import JobState
from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, FINISHED, KEY, ROTATED, OperatorFixture

FORGED = "forged"
"""How names of pods begin that are not the operator's."""


class JobStory(RuleBasedStateMachine):
    """A job, its operator, people who edit and delete, and pods that live and die."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()

    @initialize()
    def create(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.operator_fixture = OperatorFixture()
        self.never_had_it: set[str] = set()
        self.drained: set[int] = set()
        self.had_snapshot = False
        self.operator_looks(1)

    def teardown(self) -> None:
        self.loop.close()

    # -- the operator ----------------------------------------------------------------------------------------------

    @rule(times=st.integers(1, 4))
    def operator_looks_repeatedly(self, times: int) -> None:
        self.operator_looks(times)

    @rule(write=st.integers(0, 8))
    def operator_loses_the_answer_to_a_write(self, write: int) -> None:
        self.operator_fixture.kubernetes.fail_write = write
        self._look()
        self.operator_fixture.kubernetes.fail_write = None
        self.operator_fixture.restart_operator()

    @rule()
    def operator_restarts(self) -> None:
        self.operator_fixture.restart_operator()

    # -- people ----------------------------------------------------------------------------------------------------

    @rule(parallelism=st.integers(1, 4))
    def rescale(self, parallelism: int) -> None:
        self.operator_fixture.kubernetes.edit_job(KEY, parallelism=parallelism)

    @rule(policy=st.sampled_from(["AfterStop", "BeforeStop", "Standby"]))
    def choose_when_successors_come_up(self, policy: str) -> None:
        self.operator_fixture.kubernetes.edit_job(KEY, restartPolicy={"successor": policy})

    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self.operator_fixture.kubernetes.edit_job(KEY, suspend=suspend)

    @rule(topic=st.sampled_from(["orders", "enriched"]))
    def edit_to_something_invalid_or_back(self, topic: str) -> None:
        self.operator_fixture.kubernetes.edit_job(KEY, sink={"topic": topic})

    @rule(ttl=st.sampled_from([None, 0, 60]))
    def choose_when_a_finished_job_is_deleted(self, ttl: int | None) -> None:
        self.operator_fixture.kubernetes.edit_job(KEY, ttlSecondsAfterFinished=ttl)

    @rule(image=st.sampled_from(["kafkaspark/sparkapp:1", "kafkaspark/sparkapp:2"]))
    def choose_an_image(self, image: str) -> None:
        self.operator_fixture.kubernetes.edit_job(KEY, image=image)

    @rule(
        mode=st.sampled_from(["Drain", "LastCheckpoint", "Stateless"]),
        fallback=st.sampled_from(["LastCheckpoint", "Abort"]),
        rollback=st.sampled_from(["Auto", "Never"]), snapshot=st.booleans(),
    )  # fmt: skip
    def choose_how_to_upgrade(self, mode: str, fallback: str, rollback: str, snapshot: bool) -> None:
        upgrade = {
            "mode": mode, "drainFallback": fallback, "rollback": rollback, "progressDeadlineSeconds": 300,
            "snapshot": snapshot,
        }  # fmt: skip
        self.operator_fixture.kubernetes.edit_job(KEY, upgrade=upgrade)

    @rule(fallback=st.sampled_from(["Abort", "Recreate"]))
    def choose_blue_and_green(self, fallback: str) -> None:
        upgrade = {
            "strategy": "BlueGreen", "prepareFallback": fallback, "prepareTimeoutSeconds": 60, "stableAfterSeconds": 5,
            "progressDeadlineSeconds": 300,
        }  # fmt: skip
        self.operator_fixture.kubernetes.edit_job(KEY, upgrade=upgrade)

    @rule(policy=st.sampled_from(["Drain", "Cancel", "Orphan", None]))
    def choose_how_to_delete(self, policy: str | None) -> None:
        deletion = None if policy is None else {"policy": policy}
        self.operator_fixture.kubernetes.edit_job(KEY, deletion=deletion)

    @rule(interval=st.sampled_from([None, 60, 300]), count=st.integers(1, 3))
    def choose_periodic_snapshots(self, interval: int | None, count: int) -> None:
        snapshots = None if interval is None else {"intervalSeconds": interval, "count": count, "maxAgeSeconds": 300}
        self.operator_fixture.kubernetes.edit_job(KEY, snapshots=snapshots)

    @rule(state=st.sampled_from(["Ready", "Ready", "Failed"]))
    def snapshots_are_filled(self, state: str) -> None:
        """By the other controller, or in vain."""
        checkpoint = self.operator_fixture.status.get("checkpoint", {}).get("id", 0)
        for body in self._snapshots():
            if "status" not in body:
                body["status"] = {"state": state, **({"checkpoint": {"id": checkpoint}} if state == "Ready" else {})}

    @rule(paused=st.booleans())
    def pause_the_operator(self, paused: bool) -> None:
        self.operator_fixture.kubernetes.annotate_job(KEY, **{ANNOTATION_PAUSE: "true" if paused else None})

    @rule()
    def lose_the_status(self) -> None:
        self.operator_fixture.kubernetes.job(KEY)["status"] = {}

    @rule(force=st.booleans())
    @precondition(lambda self: self._pods(names.ROLE_DRIVER))
    def delete_the_driver(self, force: bool) -> None:
        name = self._pods(names.ROLE_DRIVER)[0]["metadata"]["name"]
        if force:
            self.operator_fixture.kubernetes.remove(("Pod", KEY.namespace, name))
        else:
            self.loop.run_until_complete(self.operator_fixture.kubernetes.delete("Pod", KEY.namespace, name))

    # -- the cluster -----------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 10, 400]))
    def time_passes(self, seconds: int) -> None:
        self.operator_fixture.wait(seconds)
        self.operator_looks(3)

    @rule(report=st.sampled_from([None, *DriverState]), executors=st.integers(0, 2))
    @precondition(lambda self: self._present_drivers())
    def driver_runs(self, report: DriverState | None, executors: int) -> None:
        """Comes up with its executors and, perhaps, a report."""
        attempt = self._present_drivers()[0]
        self.operator_fixture.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
        self.operator_fixture.checkpoint(attempt, attempt)
        for number in range(executors):
            self.operator_fixture.kubernetes.add_executor(KEY, attempt, number)
        if report is not None:
            self.operator_fixture.report(attempt, report, checkpoint_id=attempt, heartbeat_seconds=10)

    @rule(executors=st.integers(0, 2), says_so=st.booleans())
    @precondition(lambda self: self._waiting_drivers())
    def successor_comes_up(self, executors: int, says_so: bool) -> None:
        attempt = self._waiting_drivers()[0]
        self.operator_fixture.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
        for number in range(executors):
            self.operator_fixture.kubernetes.add_executor(KEY, attempt, number)
        if says_so:
            self.operator_fixture.kubernetes.set_data(
                KEY, names.report_config_map(KEY.name), names.PREPARED_KEY, str(attempt)
            )

    @rule()
    @precondition(lambda self: self._waiting_drivers())
    def delete_the_successor(self) -> None:
        """Its pod stays until it ends, perhaps beyond its grace period."""
        name = names.driver_pod(KEY.name, self._waiting_drivers()[0])
        self.loop.run_until_complete(self.operator_fixture.kubernetes.delete("Pod", KEY.namespace, name))

    @rule(how=st.sampled_from([DRAINED, ROTATED, FAILED, FATAL, None]))
    @precondition(lambda self: self._waiting_drivers())
    def successor_ends(self, how: object) -> None:
        self.operator_fixture.driver_ends(self._waiting_drivers()[0], how)  # type: ignore[arg-type]

    @rule(ends=st.booleans(), looks=st.integers(0, 2))
    @precondition(lambda self: self._next_drivers() and self._present_drivers())
    def successor_takes_over(self, ends: bool, looks: int) -> None:
        """The present attempt drains, and the driver that is next claims the document before anybody else acts."""
        old, new = self._present_drivers()[0], self._next_drivers()[0]
        self.operator_fixture.checkpoint(old, old, drained=True)
        self.drained.add(old)
        self.operator_looks(looks)
        if new in self._next_drivers():
            self.operator_fixture.checkpoint(new, new)
        if ends:
            self.drained_drivers_end()

    @rule()
    def drained_drivers_end(self) -> None:
        for attempt in set(self._live_drivers()) & self.drained:
            self.operator_fixture.driver_ends(attempt, DRAINED)

    @rule(how=st.sampled_from([DRAINED, ROTATED, FAILED, FATAL, None]))
    @precondition(lambda self: self._present_drivers())
    def driver_ends(self, how: object) -> None:
        attempt = self._present_drivers()[0]
        if how in (DRAINED, ROTATED):
            self.operator_fixture.checkpoint(attempt, attempt, drained=True)
        self.operator_fixture.driver_ends(attempt, how)  # type: ignore[arg-type]

    @rule()
    @precondition(lambda self: self._present_drivers())
    def driver_reads_to_its_end(self) -> None:
        attempt = self._present_drivers()[0]
        self.operator_fixture.checkpoint(attempt, attempt, drained=True, finished=True)
        self.operator_fixture.driver_ends(attempt, FINISHED)

    @rule()
    def executors_end(self) -> None:
        for pod in self._pods(names.ROLE_EXECUTOR):
            self.operator_fixture.kubernetes.pod_ends(pod["metadata"]["name"], code=1)
        self.operator_fixture.kubernetes.kubelet()

    @rule(number=st.sampled_from([0, -1, 1, 2, 3, 50, 999_999_999, 10**9, int("1" * 63)]), turn=st.booleans())
    def somebody_forges_a_driver(self, number: int, turn: bool) -> None:
        """With the rights of another job's driver: any labels, owner, name and annotations, and no ConfigMap."""
        annotations = {ANNOTATION_CLAIM: "a guess", ANNOTATION_GENERATION: "1"}
        if turn:
            annotations[names.ANNOTATION_TURN] = names.TURN_AWAITED
        self.operator_fixture.kubernetes.forge(KEY, f"{FORGED}-{number}", names.ROLE_DRIVER, number, annotations)

    @rule(number=st.sampled_from([0, 1, 2, 3, 999_999_999]))
    def somebody_forges_an_executor(self, number: int) -> None:
        self.operator_fixture.kubernetes.forge(KEY, f"{FORGED}-exec-{number}", names.ROLE_EXECUTOR, number, {})

    # -- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def never_two_attempts_at_work(self) -> None:
        """What awaits its turn touches nothing; whatever has had it must be the only one."""
        waiting = self._awaiting()
        live = {pod["metadata"]["labels"][names.LABEL_ATTEMPT] for pod in self._pods()} - waiting
        live -= {str(attempt) for attempt in self.drained}
        assert len(live - self._orphaned(waiting)) <= 1, f"pods of attempts {live}, {waiting} await their turn"

    @invariant()
    def numbers_only_grow(self) -> None:
        attempts = self.operator_fixture.kubernetes.driver_attempts
        assert attempts == sorted(set(attempts))
        assert not attempts or attempts[-1] < 1000, "a forged number was counted"

    @invariant()
    def the_state_is_created_once(self) -> None:
        created = [
            each for each in self.operator_fixture.kubernetes.writes if each == ("create", "ConfigMap", "orders-state")
        ]
        assert len(created) <= 1

    @invariant()
    def the_state_word_is_known(self) -> None:
        assert self.operator_fixture.status.get("state", "Pending") in set(JobState)

    @invariant()
    def the_last_snapshot_that_is_ready_stays(self) -> None:
        ready = [body for body in self._snapshots() if body.get("status", {}).get("state") == "Ready"]
        assert ready or not self.had_snapshot
        self.had_snapshot = bool(ready)

    @rule()
    def a_look_at_an_unchanged_job_writes_nothing(self) -> None:
        for _ in range(20):
            kubernetes = self.operator_fixture.kubernetes
            writes = len(kubernetes.writes)
            self.operator_looks(1)
            if kubernetes is self.operator_fixture.kubernetes and len(kubernetes.writes) == writes:
                break
        self._look()
        assert len(kubernetes.writes) == writes, kubernetes.writes[writes:]

    def operator_looks(self, times: int) -> None:
        for _ in range(times):
            self._look()
            self.operator_fixture.kubernetes.kubelet()

    def _look(self) -> None:
        kubernetes = self.operator_fixture.kubernetes
        job = copy.deepcopy(kubernetes.job(KEY))
        written = len(kubernetes.writes)
        try:
            self.loop.run_until_complete(self.operator_fixture.look())
        except ClusterError:
            self.operator_fixture.restart_operator()
        if (job["metadata"].get("annotations") or {}).get(ANNOTATION_PAUSE) == "true":
            changed = [write for write in kubernetes.writes[written:] if write[1] not in {"Event", names.KIND}]
            assert not changed, "the operator is paused"
            assert kubernetes.has_job(KEY), "the operator is paused"
        if not kubernetes.has_job(KEY):
            assert job["spec"].get("ttlSecondsAfterFinished") is not None, "nobody has asked for a deletion"
            assert (job["status"]["state"], job["spec"].get("suspend", False)) == ("Finished", False)
            self._begin()

    def _pods(self, role: str | None = None) -> list[dict[str, Any]]:
        return [
            each
            for each in self.operator_fixture.kubernetes.pods(KEY, role)
            if not each["metadata"]["name"].startswith(FORGED)
        ]

    def _snapshots(self) -> list[dict[str, Any]]:
        objects = self.operator_fixture.kubernetes.objects
        return [body for place, body in objects.items() if place[0] == names.SNAPSHOT_KIND]

    def _awaiting(self) -> set[str]:
        """Attempts whose driver, alive or ended, has not had its turn."""
        return {
            pod["metadata"]["labels"][names.LABEL_ATTEMPT]
            for pod in self._pods(names.ROLE_DRIVER)
            if self._awaits_activation(pod)
        }

    def _orphaned(self, waiting: set[str]) -> set[str]:
        """Executors of a successor that has never had its turn, and is gone before them."""
        self.never_had_it |= waiting
        self.never_had_it -= {
            pod["metadata"]["labels"][names.LABEL_ATTEMPT]
            for pod in self._pods(names.ROLE_DRIVER)
            if not self._awaits_activation(pod)
        }
        return self.never_had_it

    def _present_drivers(self) -> list[int]:
        present = [attempt for attempt in self._live_drivers() if str(attempt) not in self._awaiting()]
        return [attempt for attempt in present if attempt not in self.drained]

    def _waiting_drivers(self) -> list[int]:
        return [attempt for attempt in self._live_drivers() if str(attempt) in self._awaiting()]

    def _next_drivers(self) -> list[int]:
        """Those that begin by themselves when the present attempt has drained."""
        waiting = self._waiting_drivers()
        return [
            int(pod["metadata"]["labels"][names.LABEL_ATTEMPT])
            for pod in self._pods(names.ROLE_DRIVER)
            if turn_of(pod) == names.TURN_NEXT
            and int(pod["metadata"]["labels"][names.LABEL_ATTEMPT]) in waiting
            and pod["status"]["phase"] == "Running"
        ]

    def _awaits_activation(self, pod: Mapping[str, Any]) -> bool:
        """Whether its driver has touched nothing of the job: the document does not have its claim."""
        if turn_of(pod) != names.TURN_NEXT:
            return turn_of(pod) == names.TURN_AWAITED
        state = self.operator_fixture.kubernetes.objects.get(("ConfigMap", KEY.namespace, "orders-state")) or {}
        text = (state.get("data") or {}).get(names.CHECKPOINT_KEY)
        return text is None or json.loads(text)["attempt"] < int(pod["metadata"]["labels"][names.LABEL_ATTEMPT])

    def _live_drivers(self) -> list[int]:
        return [
            int(pod["metadata"]["labels"][names.LABEL_ATTEMPT])
            for pod in self._pods(names.ROLE_DRIVER)
            if pod["status"]["phase"] in {"Pending", "Running"}
        ]


def turn_of(pod: Mapping[str, Any]) -> str | None:
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return annotations.get(names.ANNOTATION_TURN)


JobStory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_job_story = JobStory.TestCase
