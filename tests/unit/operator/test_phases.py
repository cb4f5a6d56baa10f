"""The story of a job, step by step, against a Kubernetes in memory: what is created, deleted and said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kafkasparkjob_operator.cluster import ObjectRefused
from kafkasparkjob_operator.pod_view import pod_view
from kafkasparkjob_operator.restarts import KAFKA_REASONS, STATE_REASONS
from sparkapp.model import errors, names
from sparkapp.model.errors import CommandRefused, KafkaSparkJobError, ListingUnsupported
from sparkapp.model.job_codec import decode_job
from sparkapp.model.report import DriverState, Outcome, Termination, termination_of
from sparkapp.model.retention import Restore
from tests.support.operator_bench import DRAINED, FAILED, FATAL, KEY, OperatorBench, job_body, report_event


@pytest.fixture
def bench() -> OperatorBench:
    return OperatorBench()


def kinds(bench: OperatorBench) -> list[tuple[str, str]]:
    return [(kind, name) for verb, kind, name in bench.kubernetes.writes if verb == "create" and kind != "Event"]


async def test_a_new_job_gets_everything_its_driver_needs_and_the_driver_last(bench: OperatorBench) -> None:
    await bench.look()
    assert kinds(bench) == [
        ("ConfigMap", "orders-state"),
        ("ServiceAccount", "orders-driver"),
        ("Role", "orders-driver"),
        ("ConfigMap", "orders-checkpoints"),
        ("ConfigMap", "orders-report"),
        ("RoleBinding", "orders-driver"),
        ("ConfigMap", "orders-1-job"),
        ("Pod", "orders-1-driver"),
    ]
    assert bench.status["state"] == "Starting"
    assert bench.status["attempt"]["id"] == 1
    assert bench.status["attempt"]["startReason"] == "Created"
    assert bench.status["attempt"]["driverPodUID"]
    assert bench.status["parallelism"] == 2
    assert bench.status["observedGeneration"] == 1
    assert bench.ready["status"] == "False"


async def test_ready_is_true_when_the_driver_reports_running(bench: OperatorBench) -> None:
    await bench.run()
    assert bench.status["state"] == "Running"
    assert bench.ready["status"] == "True"
    assert bench.status["checkpoint"]["id"] == 10
    assert bench.kubernetes.condition(KEY, "KafkaReachable")["status"] == "True"
    assert bench.kubernetes.condition(KEY, "StateValid")["status"] == "True"
    assert bench.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"


@pytest.mark.parametrize(
    ("state", "reason"), [(DriverState.STARTING, "DriverStarting"), (DriverState.RECOVERING, "Recovering")]
)
async def test_a_starting_driver_is_not_ready(bench: OperatorBench, state: DriverState, reason: str) -> None:
    await bench.settle()
    bench.kubernetes.pod_runs("orders-1-driver")
    bench.report(1, state)
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Starting", reason)
    assert bench.ready["status"] == "False"


async def test_a_driver_that_waits_says_why_once(bench: OperatorBench) -> None:
    await bench.settle()
    waiting = {"name": "driver", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["status"] = {
        "phase": "Pending",
        "containerStatuses": [waiting],
    }
    await bench.settle()
    await bench.settle()
    assert bench.status["reason"] == "ImagePullBackOff"
    assert "no such image" in bench.status["message"]
    assert bench.kubernetes.events(warning=True) == ["ImagePullBackOff"]


async def test_a_failed_driver_is_followed_by_another_attempt_after_a_growing_pause(bench: OperatorBench) -> None:
    for attempt, pause in ((1, 1), (2, 2), (3, 4)):
        await bench.run(attempt)
        bench.driver_ends(attempt, FAILED)
        await bench.settle()
        assert bench.status["state"] == "Restarting"
        assert bench.status["restarts"]["consecutiveFailures"] == attempt
        assert "check the brokers" in bench.status["message"]
        assert bench.drivers == [f"orders-{attempt}-driver"]  # kept for kubectl logs
        bench.wait(pause - 1)
        await bench.settle()
        assert bench.drivers == [f"orders-{attempt}-driver"]
        bench.wait(1)
        await bench.settle()
        assert bench.drivers == [f"orders-{attempt + 1}-driver"]
    assert bench.status["restarts"]["total"] == 3
    assert bench.status["lastFailure"]["reason"] == "KafkaUnreachable"
    assert bench.kubernetes.condition(KEY, "KafkaReachable")["status"] == "False"
    assert bench.kubernetes.events(warning=True) == ["KafkaUnreachable"] * 3


async def test_a_long_run_ends_the_row_of_failures(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    await bench.run(2)
    bench.wait(600)
    await bench.settle()
    assert bench.status["restarts"]["consecutiveFailures"] == 0
    assert bench.status["restarts"]["total"] == 1


async def test_a_fatal_failure_is_not_repeated_until_the_resource_changes(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.driver_ends(1, FATAL)
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Failed", "InvalidTransform")
    bench.wait(100_000)
    bench.restart_operator()
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]
    bench.kubernetes.edit_job(KEY, restartNonce=1)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["attempt"]["startReason"] == "SpecChanged"


async def test_a_restore_is_asked_for_by_the_nonce_alone(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, restoreFrom={"checkpoint": 7})
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"], "naming a checkpoint has no effect of its own"
    bench.kubernetes.edit_job(KEY, redeployNonce=1)
    await bench.settle()
    assert (bench.status["state"], bench.status["attempt"]["stopReason"]) == ("Restarting", "SpecChange")
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    job = decode_job(bench.kubernetes.objects["ConfigMap", "team", "orders-2-job"]["data"][names.JOB_KEY])
    assert job.spec.restore == Restore(checkpoint=7, nonce=1)


async def test_earlier_checkpoints_that_are_gone_are_no_reason_to_stop(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    del bench.kubernetes.objects["ConfigMap", "team", "orders-checkpoints"]
    bench.wait(5)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.kubernetes.objects["ConfigMap", "team", "orders-checkpoints"]["data"] == {}


async def test_the_limit_of_failures_ends_the_tries() -> None:
    bench = OperatorBench(restartPolicy={"maxConsecutiveFailures": 2, "backoff": {"initialSeconds": 1}})
    for attempt in (1, 2):
        await bench.run(attempt)
        bench.driver_ends(attempt, FAILED)
        await bench.settle()
        bench.wait(1)
        await bench.settle()
    bench.wait(100_000)
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Failed", "RestartLimitReached")
    assert bench.kubernetes.driver_attempts == [1, 2]
    assert "RestartLimitReached" in bench.kubernetes.events(warning=True)


async def test_a_transform_that_raises_is_tried_six_times_and_its_log_stays_readable(bench: OperatorBench) -> None:
    raised = Termination(
        outcome=Outcome.FAILED, reason="TransformFailed", message="ValueError: x (enrich.py:5 in amount)",
        remedy="correct spec.transform", log='File "enrich.py", line 5, in amount',
    )  # fmt: skip
    for attempt in range(1, 7):
        await bench.run(attempt)
        bench.driver_ends(attempt, raised)
        await bench.settle()
        failure = bench.status["lastFailure"]
        assert failure["log"] == raised.log
        command = "kubectl get ksj orders -n team -o jsonpath='{.status.lastFailure.log}'"
        assert failure["remedy"] == f"correct spec.transform; its log ends: {command}"
        assert failure["fatal"] is (attempt == 6)
        bench.wait(60)
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Failed", "RestartLimitReached")
    assert bench.kubernetes.driver_attempts == [1, 2, 3, 4, 5, 6]


async def test_a_driver_without_a_last_word_leaves_its_logs_end(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.pod_ends("orders-1-driver", message="MemoryError\n", code=1)
    await bench.settle()
    failure = bench.status["lastFailure"]
    assert (failure["reason"], failure["log"]) == ("DriverFailed", "MemoryError\n")
    assert failure["remedy"].endswith("kubectl get ksj orders -n team -o jsonpath='{.status.lastFailure.log}'")


@pytest.mark.parametrize(
    "change",
    [{"restartNonce": 1}, {"restartPolicy": {"resetAfterSeconds": 500}}],
    ids=["restartNonce", "a field of the operator's"],
)
async def test_a_change_of_the_resource_gives_all_tries_again_and_the_first_pause(change: dict[str, Any]) -> None:
    bench = OperatorBench(restartPolicy={"maxConsecutiveFailures": 3, "backoff": {"initialSeconds": 2}})

    async def fail(attempt: int) -> None:
        await bench.run(attempt)
        bench.driver_ends(attempt, FAILED)
        await bench.settle()

    for attempt, pause in ((1, 2), (2, 4), (3, 0)):
        await fail(attempt)
        bench.wait(pause)
    assert bench.status["reason"] == "RestartLimitReached"
    bench.kubernetes.edit_job(KEY, **change)
    for attempt, pause in ((4, 2), (5, 4)):
        await fail(attempt)
        assert bench.status["state"] == "Restarting", attempt
        assert bench.status["restarts"]["consecutiveFailures"] == attempt - 3
        bench.wait(pause - 1)
        await bench.settle()
        assert bench.drivers == [f"orders-{attempt}-driver"]
        bench.wait(1)
    await fail(6)
    assert bench.status["reason"] == "RestartLimitReached"
    bench.wait(100_000)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1, 2, 3, 4, 5, 6]


async def test_a_resumed_job_has_all_tries_again() -> None:
    bench = OperatorBench(restartPolicy={"maxConsecutiveFailures": 2})
    await bench.run(1)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    for suspend in (True, False):
        bench.kubernetes.edit_job(KEY, suspend=suspend)
        await bench.settle()
    await bench.run(2)
    assert bench.status["restarts"]["consecutiveFailures"] == 0
    bench.driver_ends(2, FAILED)
    await bench.settle()
    assert bench.status["state"] == "Restarting"


@pytest.mark.parametrize(
    ("reason", "code", "expected"), [("OOMKilled", 137, "OOMKilled"), ("Error", 137, "DriverKilled")]
)
async def test_a_killed_driver_is_restarted(bench: OperatorBench, reason: str, code: int, expected: str) -> None:
    await bench.run(1)
    bench.driver_ends(1, code=code, reason=reason)
    await bench.settle()
    assert bench.status["attempt"]["outcome"] == "Killed"
    assert bench.status["reason"] == expected
    bench.wait(5)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]


async def test_an_evicted_driver_without_container_statuses_is_restarted(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["status"] = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    }
    await bench.settle()
    assert bench.status["reason"] == "Evicted"
    bench.wait(5)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]


@pytest.mark.parametrize("words", [FAILED, None], ids=["last words", "killed"])
async def test_a_dead_driver_beside_a_sidecar_that_runs_on_is_restarted(
    bench: OperatorBench, words: Termination | None
) -> None:
    await bench.run(1)
    bench.driver_ends(1, words, code=1)
    status = bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["status"]
    status["phase"] = "Running"
    status["containerStatuses"].insert(0, {"name": "proxy", "state": {"running": {}}})
    await bench.settle()
    assert (bench.status["state"], bench.ready["status"]) == ("Restarting", "False")
    assert bench.status["reason"] == (words.reason if words is not None else "DriverFailed")
    assert bench.status["restarts"]["consecutiveFailures"] == 1
    bench.wait(5)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1], "the sidecar has not gone yet"
    assert bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]["deletionTimestamp"]
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]


async def test_a_vanished_driver_is_restarted_and_its_executors_go_first(bench: OperatorBench) -> None:
    await bench.run(1)
    executor = bench.kubernetes.add_executor(KEY, 1)
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await bench.settle()
    assert bench.status["reason"] == "DriverMissing"
    bench.wait(60)
    await bench.settle()
    assert bench.drivers == []  # the executor is still terminating
    assert bench.kubernetes.pods(KEY)[0]["metadata"]["deletionTimestamp"]
    bench.kubernetes.remove(("Pod", "team", executor))
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]


async def test_a_driver_deleted_by_hand_drains_and_is_followed_without_a_failure(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.wait(300)
    bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]["deletionTimestamp"] = "2026-11-21T12:05:00Z"
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Restarting", "DriverStopping")
    bench.checkpoint(1, 11, drained=True)
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["restarts"].get("consecutiveFailures", 0) == 0
    assert bench.status["restarts"]["total"] == 1


async def test_last_words_count_although_the_pod_was_gone_before_anybody_looked(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.driver_ends(1, FATAL)
    seen = pod_view(bench.kubernetes.objects["Pod", "team", "orders-1-driver"])
    assert seen is not None
    bench.cache.put_pod(KEY, seen)
    bench.cache.drop_pod(KEY, seen.uid)
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Failed", "InvalidTransform")


async def test_suspend_drains_and_resume_goes_on_with_the_next_attempt(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, suspend=True)
    await bench.settle()
    assert bench.status["state"] == "Suspending"
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.status["state"] == "Suspended"
    assert bench.drivers == []
    bench.wait(1000)
    await bench.settle()
    assert bench.drivers == []
    bench.kubernetes.edit_job(KEY, suspend=False)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["attempt"]["startReason"] == "Resumed"
    assert bench.status["restarts"]["total"] == 0
    assert {"Suspending", "Suspended", "Resumed"} <= set(bench.kubernetes.events(warning=False))
    assert bench.kubernetes.events(warning=True) == []


@pytest.mark.parametrize(
    ("limit", "until"),
    [
        ("Seconds", "sink.transactionTimeoutSeconds is over"),
        ("Never", "somebody ends it (sink.transactionTimeout: Never)"),
    ],
)
@pytest.mark.parametrize(
    ("words", "told"), [(None, "Killed"), (FAILED, "Failed")], ids=["killed in the drain", "failed in the drain"]
)
async def test_a_suspended_job_whose_drain_was_not_orderly_says_what_may_be_left_open(
    bench: OperatorBench, words: Termination | None, told: str, limit: str, until: str
) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, suspend=True, sink={"transactionTimeout": limit})
    await bench.settle()
    bench.driver_ends(1, words, code=137)
    for _ in range(3):
        await bench.settle()
    assert bench.status["state"] == "Suspended"
    message = bench.status["message"]
    assert f"did not drain in order ({told})" in message
    assert "read_committed readers" in message
    assert "python -m sparkapp txn list --namespace team --job orders" in message
    assert bench.ready["message"] == message
    assert bench.kubernetes.events(warning=True) == ["NotDrained"]
    bench.kubernetes.edit_job(KEY, suspend=False)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert f"may hold back read_committed readers until {until}; " in message


async def test_a_job_that_is_suspended_while_it_waits_after_a_failure_says_so_too(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.driver_ends(1, code=137)
    await bench.settle()
    bench.kubernetes.edit_job(KEY, suspend=True)
    await bench.settle()
    assert "txn list" in bench.status["message"]


@pytest.mark.parametrize("semantic", ["EXACTLY_ONCE", "AT_LEAST_ONCE"])
async def test_an_orderly_drain_leaves_nothing_to_say_and_without_transactions_none_is_open(semantic: str) -> None:
    bench = OperatorBench(sink={"topic": "enriched", "semantic": semantic})
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, suspend=True)
    await bench.settle()
    bench.driver_ends(1, DRAINED if semantic == "EXACTLY_ONCE" else None, code=137)
    await bench.settle()
    assert bench.status["state"] == "Suspended"
    assert "transaction" not in bench.status["message"]
    assert ("did not drain" in bench.status["message"]) is (semantic == "AT_LEAST_ONCE")


async def test_a_job_created_suspended_starts_nothing() -> None:
    bench = OperatorBench(suspend=True)
    await bench.settle()
    assert bench.status["state"] == "Suspended"
    assert bench.kubernetes.driver_attempts == []
    bench.kubernetes.edit_job(KEY, suspend=False)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]


async def test_a_rescale_drains_first_and_says_so(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, parallelism=3)
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Rescaling", "RescaleStarted")
    assert "from 2 to 3" in bench.status["message"]
    assert bench.status["parallelism"] == 2
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert (bench.status["state"], bench.status["parallelism"]) == ("Rescaling", 3)
    await bench.run(2)
    assert bench.status["state"] == "Running"
    assert bench.ready["status"] == "True"
    assert {"RescaleStarted", "Rescaled"} <= set(bench.kubernetes.events())


async def test_another_spec_drains_and_restarts(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, image="kafkaspark/sparkapp:2")
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Restarting", "SpecChanged")
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["attempt"]["generation"] == 2


async def test_a_change_that_does_not_concern_the_application_restarts_nothing(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, restartPolicy={"maxConsecutiveFailures": 7})
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]
    assert bench.status["attempt"]["generation"] == 2
    assert bench.ready["status"] == "True"
    assert bench.ready["observedGeneration"] == 2


async def test_an_invalid_edit_leaves_the_job_running_and_says_what_to_type(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, sink={"topic": "orders"})
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]
    valid = bench.kubernetes.condition(KEY, "ConfigValid")
    assert valid["status"] == "False"
    assert "also a source topic" in valid["message"]
    assert bench.ready["status"] == "False"
    # Should its driver fail meanwhile, the last valid spec goes on.
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["attempt"]["generation"] == 1
    assert bench.status["attempt"]["startReason"] == "Restarted"


async def test_an_invalid_first_spec_starts_nothing() -> None:
    bench = OperatorBench(sink={"topic": "orders"})
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Failed", "InvalidSpec")
    assert kinds(bench) == []


async def test_a_lost_state_is_never_replaced_by_an_empty_one(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.remove(("ConfigMap", "team", "orders-state"))
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    assert (bench.status["state"], bench.status["reason"]) == ("Failed", "StateMissing")
    assert bench.kubernetes.condition(KEY, "StateValid")["reason"] == "StateMissing"
    assert ("ConfigMap", "orders-state") not in kinds(bench)[1:]
    assert bench.kubernetes.driver_attempts == [1]


async def test_an_emptied_state_counts_as_lost(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.objects["ConfigMap", "team", "orders-state"]["data"] = {}
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    assert bench.status["reason"] == "StateMissing"


async def test_the_next_attempt_is_numbered_above_the_states_whoever_wrote_it(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.checkpoint(7, 10)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    bench.wait(60)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1, 8]


async def test_a_lost_status_does_not_hide_a_lost_state(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.remove(("ConfigMap", "team", "orders-state"))
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    bench.kubernetes.job(KEY)["status"] = {}
    await bench.settle()
    assert bench.status["reason"] == "StateMissing"
    assert bench.kubernetes.driver_attempts == [1]


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "StateCorrupt"), ('{"formatVersion":1,"jobUid":"another"}', "StateForeign")]
)
async def test_an_unreadable_state_starts_nothing_until_it_is_restored(
    bench: OperatorBench, text: str, reason: str
) -> None:
    await bench.run(1)
    document = bench.kubernetes.objects["ConfigMap", "team", "orders-state"]["data"]["checkpoint.json"]
    bench.kubernetes.set_data(KEY, "orders-state", "checkpoint.json", text)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    assert bench.status["reason"] == reason
    assert bench.drivers == ["orders-1-driver"]
    bench.kubernetes.set_data(KEY, "orders-state", "checkpoint.json", document)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.kubernetes.condition(KEY, "StateValid")["status"] == "True"


async def test_a_recreated_job_waits_until_its_namesakes_state_is_collected(bench: OperatorBench) -> None:
    await bench.run(1)
    body = job_body()
    body["metadata"]["uid"] = "another-life"
    bench.kubernetes.remove((names.KIND, "team", "orders"))
    bench.kubernetes.add_job(body)
    await bench.look(3)
    assert bench.kubernetes.pods(KEY)[0]["metadata"]["deletionTimestamp"]  # the stranger's driver has to stop
    assert bench.kubernetes.driver_attempts == [1]
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await bench.look(2)
    assert bench.status["reason"] == "AwaitingCollection"
    for place in list(bench.kubernetes.objects):
        if place[0] in {"ConfigMap", "ServiceAccount", "Role", "RoleBinding"} and place[2] != "orders-1-job":
            bench.kubernetes.remove(place)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]  # not 1: that name may still mean something to somebody


async def test_restarting_the_operator_touches_no_pod(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1)
    await bench.settle()
    before, writes = bench.kubernetes.pods(KEY), len(bench.kubernetes.writes)
    bench.restart_operator()
    await bench.settle()
    assert bench.kubernetes.pods(KEY) == before
    assert len(bench.kubernetes.writes) == writes


async def test_a_lost_status_adopts_the_running_driver(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.job(KEY)["status"] = {}
    bench.restart_operator()
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    assert bench.status["attempt"]["id"] == 1
    assert bench.status["attempt"]["generation"] == 1
    assert bench.status["state"] == "Running"


async def test_a_driver_that_another_operator_makes_during_a_look_is_known_by_its_description(
    bench: OperatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ConfigMaps are listed after the pods, and made before them."""
    await bench.run(1)
    made = [one for one in bench.kubernetes.objects if one[2] in {"orders-1-job", "orders-1-driver"}]
    absent = {place: bench.kubernetes.objects.pop(place) for place in made}
    bench.kubernetes.job(KEY)["status"] = {}
    bench.restart_operator()
    listed = bench.kubernetes.list_pods

    async def list_pods(key: Any) -> Any:
        bench.kubernetes.objects.update(absent)
        return await listed(key)

    monkeypatch.setattr(bench.kubernetes, "list_pods", list_pods)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    assert (bench.status["attempt"]["id"], bench.status["attempt"]["generation"]) == (1, 1)


async def test_pods_of_a_former_attempt_beside_a_live_driver_are_stopped(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.run(2)
    name = bench.kubernetes.add_executor(KEY, 1)
    await bench.settle()
    assert bench.kubernetes.objects["Pod", "team", name]["metadata"]["deletionTimestamp"]
    assert bench.status["state"] == "Running"


async def test_a_pod_that_does_not_go_away_is_waited_for_and_named(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, parallelism=3)
    await bench.settle()
    bench.wait(10_000)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    assert bench.status["reason"] == "PodNotTerminating"
    assert "--force" in bench.status["message"]
    assert bench.kubernetes.events(warning=True) == ["PodNotTerminating"]


async def test_the_time_of_a_pods_deletion_has_its_grace_in_it(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, parallelism=3)
    await bench.settle()
    # Asked to stop at noon, with 120 s of grace.
    meta = bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    meta["deletionTimestamp"] = "2026-11-21T12:02:00Z"
    bench.wait(120 + 29)
    await bench.settle()
    assert bench.status["reason"] == "RescaleStarted"
    bench.wait(2)
    await bench.settle()
    assert bench.status["reason"] == "PodNotTerminating"


async def test_a_refused_pod_leaves_its_number_free(bench: OperatorBench) -> None:
    bench.kubernetes.refuse_pods = 'pods "orders-1-driver" is forbidden: exceeded quota: compute'
    for _ in range(3):
        with pytest.raises(ObjectRefused):
            await bench.look()
    assert (bench.status["state"], bench.status["reason"]) == ("Pending", "QuotaExceeded")
    assert bench.kubernetes.events(warning=True) == ["QuotaExceeded"]
    bench.kubernetes.refuse_pods = ""
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]


async def test_the_drivers_events_are_published_once_each(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.report(1, events=(report_event(1), report_event(2, "OffsetsDropped", "Warning")))
    await bench.settle()
    bench.report(1, events=(report_event(1), report_event(2, "OffsetsDropped", "Warning"), report_event(3)))
    bench.restart_operator()
    await bench.settle()
    await bench.settle()
    assert bench.kubernetes.events().count("PartitionAdded") == 2
    assert bench.kubernetes.events(warning=True) == ["OffsetsDropped"]
    assert bench.status["attempt"]["eventSequence"] == 3


async def test_a_report_of_another_attempt_says_nothing_about_this_one(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    bench.kubernetes.pod_runs("orders-2-driver")
    await bench.settle()
    assert bench.status["reason"] == "DriverStarting"
    assert bench.ready["status"] == "False"


async def test_a_stalled_checkpoint_is_shown(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1)
    bench.report(1, checkpoint_id=10, checkpoint_time="2026-11-21T12:00:00Z", lag_records=5)
    bench.wait(59)
    await bench.settle()
    assert bench.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"
    bench.wait(2)
    await bench.settle()
    assert bench.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "CheckpointStalled"
    assert bench.kubernetes.events(warning=True) == ["CheckpointStalled"]


async def test_a_deleted_resource_is_left_to_kubernetes(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.job(KEY)["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    writes = len(bench.kubernetes.writes)
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await bench.look(3)
    assert len(bench.kubernetes.writes) == writes


async def test_old_descriptions_of_attempts_are_removed(bench: OperatorBench) -> None:
    for attempt in range(1, 5):
        await bench.run(attempt)
        bench.driver_ends(attempt, FAILED)
        await bench.settle()
        bench.wait(300)
        await bench.settle()
    kept = [place[2] for place in bench.kubernetes.objects if place[0] == "ConfigMap" and place[2].endswith("-job")]
    assert kept == ["orders-4-job", "orders-5-job"]


async def test_S37_the_status_shows_commits_of_group_offsets(bench: OperatorBench) -> None:
    await bench.run()
    bench.report(1, commits_succeeded=7, commits_failed=2)
    await bench.settle()
    assert bench.status["source"]["commitsSucceeded"] == 7
    assert bench.status["source"]["commitsFailed"] == 2


def error_kinds(kind: type[KafkaSparkJobError] = KafkaSparkJobError) -> list[type[KafkaSparkJobError]]:
    """Every kind of error that an attempt can end with."""
    return [kind, *(one for child in kind.__subclasses__() for one in error_kinds(child))]


NEVER = {CommandRefused, ListingUnsupported}
"""A command for people, and what is always done without."""
ENDS = sorted(
    {one.reason: one for one in error_kinds() if one.__module__ == errors.__name__ and one not in NEVER}.items()
)
OPERATIONS = Path(__file__).parents[3] / "docs/operations.md"


def promised(condition: str) -> set[str]:
    """The reasons that the documentation names for a condition."""
    rows = [line for line in OPERATIONS.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{condition}`")]
    assert len(rows) == 1
    return {word for word in re.findall(r"`(\w+)`", rows[0].split("|")[2]) if word in dict(ENDS)}


@pytest.mark.parametrize(("reason", "kind"), ENDS)
async def test_every_reason_that_ends_an_attempt_shows_where_the_documentation_says(
    bench: OperatorBench, reason: str, kind: type[KafkaSparkJobError]
) -> None:
    await bench.run(1)
    bench.driver_ends(1, termination_of(kind("what happened")))
    await bench.settle()
    assert (bench.ready["status"], bench.ready["reason"]) == ("False", reason)
    assert kind.default_remedy in bench.ready["message"]
    assert bench.status["state"] == ("Failed" if kind.fatal else "Restarting")
    for condition in ("KafkaReachable", "StateValid"):
        found = bench.kubernetes.condition(KEY, condition)
        if reason in promised(condition):
            assert (found["status"], found["reason"]) == ("False", reason), condition
        else:
            assert found["status"] == "True", condition


@pytest.mark.parametrize(("reason", "kind"), ENDS)
def test_every_reason_that_ends_an_attempt_is_in_the_table_of_refusals(
    reason: str, kind: type[KafkaSparkJobError]
) -> None:
    table = OPERATIONS.read_text(encoding="utf-8").split("## Refusals")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    assert sum(f"`{reason}`" in row for row in rows) == 1, kind.__doc__


def test_a_state_that_is_not_valid_needs_a_person() -> None:
    assert promised("StateValid") == STATE_REASONS
    assert all(kind.fatal for reason, kind in ENDS if reason in STATE_REASONS)
    assert promised("KafkaReachable") == KAFKA_REASONS


async def test_the_oldest_open_transaction_is_a_condition_that_time_alone_changes(bench: OperatorBench) -> None:
    def shown() -> tuple[str, str]:
        condition = bench.kubernetes.condition(KEY, "TransactionsHealthy")
        return condition["status"], condition["reason"]

    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1)
    assert shown() == ("Unknown", "NotObserved"), "the driver has not looked yet"
    bench.report(1, transactions_known=True)
    await bench.settle()
    assert shown() == ("True", "NoneOverdue")
    assert bench.status["transactions"]["open"] == 0
    began = "2026-11-21T12:00:00Z"
    bench.report(1, transactions_known=True, transactions_open=2, oldest_transaction_time=began)
    await bench.settle()
    bench.wait(59)
    await bench.settle()
    assert shown() == ("True", "NoneOverdue")
    assert (bench.status["transactions"]["open"], bench.status["transactions"]["oldestOpenTime"]) == (2, began)
    bench.wait(2)
    await bench.settle()
    assert shown() == ("False", "TransactionOverdue")
    assert bench.kubernetes.events(warning=True) == ["TransactionOverdue"]
    message = bench.kubernetes.condition(KEY, "TransactionsHealthy")["message"]
    assert "`python -m sparkapp txn list --namespace team --job orders` names it" in message
    bench.driver_ends(1)
    await bench.settle()
    assert shown() == ("Unknown", "NotObserved")
    assert not {"open", "oldestOpenTime"} & bench.status.get("transactions", {}).keys(), "no old number is shown"
