"""The story of a job, step by step, against a Kubernetes in memory: what is created, deleted and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkasparkjob_operator.kubernetes.port import ObjectRefused
from kafkasparkjob_operator.observation.pod_view import pod_view
from kafkasparkjob_operator.workload import JobSettings
from sparkapp.model import errors, names
from sparkapp.model.errors import (
    CONDITION_BY_REASON,
    CommandRefused,
    InputUnreadable,
    KafkaSparkJobError,
    ListingUnsupported,
)
from sparkapp.model.job.codec import decode_job
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.report import AttemptOutcome, DriverState, Termination, termination_of
from tests.support.kubernetes.operator_fixture import (
    DRAINED,
    FAILED,
    FATAL,
    KEY,
    OperatorFixture,
    job_body,
    record_name,
    report_event,
    secret_name,
)


@pytest.fixture
def operator_fixture() -> OperatorFixture:
    return OperatorFixture()


def kinds(operator_fixture: OperatorFixture) -> list[tuple[str, str]]:
    return [
        (kind, name) for verb, kind, name in operator_fixture.kubernetes.writes if verb == "create" and kind != "Event"
    ]


async def test_a_new_job_gets_everything_its_driver_needs_and_the_driver_last(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.look()
    assert kinds(operator_fixture) == [
        ("ConfigMap", "orders-state"),
        ("ConfigMap", operator_fixture.status["attempt"]["revision"]),
        ("ServiceAccount", "orders-driver"),
        ("ServiceAccount", "orders-executor"),
        ("Role", "orders-driver"),
        ("ConfigMap", "orders-report"),
        ("RoleBinding", "orders-driver"),
        ("ConfigMap", "orders-checkpoints"),
        ("ConfigMap", record_name(1)),
        ("Secret", secret_name(1)),
        ("Pod", "orders-1-driver"),
    ]
    assert operator_fixture.status["state"] == "Starting"
    assert operator_fixture.status["attempt"]["id"] == 1
    assert operator_fixture.status["attempt"]["startReason"] == "Created"
    assert operator_fixture.status["attempt"]["driverPodUID"]
    assert operator_fixture.status["parallelism"] == 2
    assert operator_fixture.status["observedGeneration"] == 1
    assert operator_fixture.ready["status"] == "False"


async def test_ready_is_true_when_the_driver_reports_running(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run()
    assert operator_fixture.status["state"] == "Running"
    assert operator_fixture.ready["status"] == "True"
    assert operator_fixture.status["checkpoint"]["id"] == 10
    assert operator_fixture.kubernetes.condition(KEY, "KafkaReachable")["status"] == "True"
    assert operator_fixture.kubernetes.condition(KEY, "StateValid")["status"] == "True"
    assert operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"


async def test_the_status_names_the_engine_of_the_present_attempt(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run()
    operator_fixture.report(1, engine="Continuous", engine_message="set by spec.engine")
    await operator_fixture.settle()
    assert operator_fixture.status["engine"] == {"name": "Continuous", "message": "set by spec.engine"}
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert "engine" not in operator_fixture.status, "until the next driver reports its own"


@pytest.mark.parametrize(
    ("state", "reason"), [(DriverState.STARTING, "DriverStarting"), (DriverState.RECOVERING, "Recovering")]
)
async def test_a_starting_driver_is_not_ready(
    operator_fixture: OperatorFixture, state: DriverState, reason: str
) -> None:
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.report(1, state)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Starting", reason)
    assert operator_fixture.ready["status"] == "False"


@pytest.mark.parametrize(
    ("image", "remedy"),
    [
        ("kafkaspark/sparkapp:1", "; spec.image names this image: correct it, or add a Secret"),
        (None, "; the values job.image.repository and job.image.tag of the operator's chart name this image"),
    ],
)
async def test_a_driver_that_waits_says_why_once(image: str | None, remedy: str) -> None:
    operator_fixture = OperatorFixture(image=image)
    operator_fixture.restart_operator(settings=JobSettings(default_image="kafkaspark/sparkapp:9"))
    await operator_fixture.settle()
    waiting = {"name": "driver", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["status"] = {
        "phase": "Pending",
        "containerStatuses": [waiting],
    }
    await operator_fixture.settle()
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "ImagePullBackOff"
    assert f"ImagePullBackOff: no such image{remedy}" in operator_fixture.status["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["ImagePullBackOff"]


async def test_a_failed_driver_is_followed_by_another_attempt_after_a_growing_pause(
    operator_fixture: OperatorFixture,
) -> None:
    for attempt, pause in ((1, 1), (2, 2), (3, 4)):
        await operator_fixture.run(attempt)
        operator_fixture.driver_ends(attempt, FAILED)
        await operator_fixture.settle()
        assert operator_fixture.status["state"] == "Restarting"
        assert operator_fixture.status["restarts"]["consecutiveFailures"] == attempt
        assert "check the brokers" in operator_fixture.status["message"]
        assert operator_fixture.drivers == [f"orders-{attempt}-driver"]  # kept for kubectl logs
        operator_fixture.wait(pause - 1)
        await operator_fixture.settle()
        assert operator_fixture.drivers == [f"orders-{attempt}-driver"]
        operator_fixture.wait(1)
        await operator_fixture.settle()
        assert operator_fixture.drivers == [f"orders-{attempt + 1}-driver"]
    assert operator_fixture.status["restarts"]["total"] == 3
    assert operator_fixture.status["lastFailure"]["reason"] == "KafkaUnreachable"
    assert operator_fixture.kubernetes.condition(KEY, "KafkaReachable")["status"] == "False"
    assert operator_fixture.kubernetes.events(warning=True) == ["KafkaUnreachable"] * 3


async def test_a_long_run_ends_the_row_of_failures(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    await operator_fixture.run(2)
    operator_fixture.wait(600)
    await operator_fixture.settle()
    assert operator_fixture.status["restarts"]["consecutiveFailures"] == 0
    assert operator_fixture.status["restarts"]["total"] == 1


async def test_a_driver_that_was_killed_names_the_command_for_its_pods_events(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, code=137)
    await operator_fixture.settle()
    command = "kubectl get events -n team --field-selector involvedObject.name=orders-1-driver"
    assert operator_fixture.status["lastFailure"]["remedy"] == f"find out what killed it: {command}"


async def test_the_remedy_of_an_invalid_spec_names_the_job() -> None:
    operator_fixture = OperatorFixture(sparkConf={"spark.master": "local"})
    await operator_fixture.settle()
    message = operator_fixture.kubernetes.condition(KEY, "ConfigValid")["message"]
    assert "kubectl edit ksj orders -n team" in message
    assert "NAMESPACE" not in message


async def test_a_failed_job_is_retried_by_the_command_of_its_message(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    command = 'kubectl patch ksj orders -n team --type merge -p "{\\"spec\\":{\\"restartNonce\\":$(date +%s)}}"'
    assert operator_fixture.status["message"].endswith(command)
    assert operator_fixture.status["lastFailure"]["remedy"].endswith(command)
    operator_fixture.kubernetes.edit_job(KEY, restartNonce=1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_a_loop_of_restarts_shows_its_failure_until_the_job_runs_again(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Restarting", "KafkaUnreachable")
    assert "attempt 1 failed: no broker answered" in operator_fixture.status["message"]
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.report(2, DriverState.RECOVERING)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Restarting", "KafkaUnreachable")
    await operator_fixture.run(2)
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Running", "Running")


async def test_a_fatal_failure_is_not_repeated_until_the_resource_changes(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "InvalidTransform")
    operator_fixture.wait(100_000)
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    operator_fixture.kubernetes.edit_job(KEY, restartNonce=1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["attempt"]["startReason"] == "SpecChanged"


async def test_a_restore_is_asked_for_by_the_nonce_alone(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, restore={"checkpoint": 7})
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"], "naming a checkpoint has no effect of its own"
    operator_fixture.kubernetes.edit_job(KEY, restore={"checkpoint": 7, "nonce": 1})
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["attempt"]["stopReason"]) == (
        "Restarting",
        "SpecChange",
    )
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    job = decode_job(operator_fixture.kubernetes.objects["ConfigMap", "team", record_name(2)]["data"][names.JOB_KEY])
    assert job.spec.restore == Restore(checkpoint=7, nonce=1)


async def test_earlier_checkpoints_that_are_gone_are_no_reason_to_stop(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    del operator_fixture.kubernetes.objects["ConfigMap", "team", "orders-checkpoints"]
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.kubernetes.objects["ConfigMap", "team", "orders-checkpoints"]["data"] == {}


async def test_the_limit_of_failures_ends_the_tries() -> None:
    operator_fixture = OperatorFixture(restartPolicy={"maxConsecutiveFailures": 2, "backoff": {"initialSeconds": 1}})
    for attempt in (1, 2):
        await operator_fixture.run(attempt)
        operator_fixture.driver_ends(attempt, FAILED)
        await operator_fixture.settle()
        operator_fixture.wait(1)
        await operator_fixture.settle()
    operator_fixture.wait(100_000)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "RestartLimitReached")
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]
    assert "RestartLimitReached" in operator_fixture.kubernetes.events(warning=True)


async def test_a_transform_that_raises_is_tried_six_times_and_its_log_stays_readable(
    operator_fixture: OperatorFixture,
) -> None:
    raised = Termination(
        outcome=AttemptOutcome.FAILED, reason="TransformFailed", message="ValueError: x (enrich.py:5 in amount)",
        remedy="correct spec.transform", log='File "enrich.py", line 5, in amount',
    )  # fmt: skip
    for attempt in range(1, 7):
        await operator_fixture.run(attempt)
        operator_fixture.driver_ends(attempt, raised)
        await operator_fixture.settle()
        failure = operator_fixture.status["lastFailure"]
        assert failure["log"] == raised.log
        command = "kubectl get ksj orders -n team -o jsonpath='{.status.lastFailure.log}'"
        assert failure["remedy"].startswith(f"correct spec.transform; read the end of its log: {command}")
        assert ("restartNonce" in failure["remedy"]) is (attempt == 6)
        assert failure["fatal"] is (attempt == 6)
        operator_fixture.wait(60)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "RestartLimitReached")
    assert operator_fixture.kubernetes.driver_attempts == [1, 2, 3, 4, 5, 6]


async def test_a_driver_without_a_last_word_leaves_its_logs_end(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.pod_ends("orders-1-driver", message="MemoryError\n", code=1)
    await operator_fixture.settle()
    failure = operator_fixture.status["lastFailure"]
    assert (failure["reason"], failure["log"]) == ("DriverFailed", "MemoryError\n")
    assert failure["remedy"].endswith("kubectl get ksj orders -n team -o jsonpath='{.status.lastFailure.log}'")


@pytest.mark.parametrize(
    "change",
    [{"restartNonce": 1}, {"restartPolicy": {"resetAfterSeconds": 500}}],
    ids=["restartNonce", "a field of the operator's"],
)
async def test_a_change_of_the_resource_gives_all_tries_again_and_the_first_pause(change: dict[str, Any]) -> None:
    operator_fixture = OperatorFixture(restartPolicy={"maxConsecutiveFailures": 3, "backoff": {"initialSeconds": 2}})

    async def fail(attempt: int) -> None:
        await operator_fixture.run(attempt)
        operator_fixture.wait(10)  # longer than the floor under every pause
        operator_fixture.driver_ends(attempt, FAILED)
        await operator_fixture.settle()

    for attempt, pause in ((1, 2), (2, 4), (3, 0)):
        await fail(attempt)
        operator_fixture.wait(pause)
    assert operator_fixture.status["reason"] == "RestartLimitReached"
    operator_fixture.kubernetes.edit_job(KEY, **change)
    for attempt, pause in ((4, 2), (5, 4)):
        await fail(attempt)
        assert operator_fixture.status["state"] == "Restarting", attempt
        assert operator_fixture.status["restarts"]["consecutiveFailures"] == attempt - 3
        operator_fixture.wait(pause - 1)
        await operator_fixture.settle()
        assert operator_fixture.drivers == [f"orders-{attempt}-driver"]
        operator_fixture.wait(1)
    await fail(6)
    assert operator_fixture.status["reason"] == "RestartLimitReached"
    operator_fixture.wait(100_000)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1, 2, 3, 4, 5, 6]


async def test_a_resumed_job_has_all_tries_again() -> None:
    operator_fixture = OperatorFixture(restartPolicy={"maxConsecutiveFailures": 2})
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    for suspend in (True, False):
        operator_fixture.kubernetes.edit_job(KEY, suspend=suspend)
        await operator_fixture.settle()
    await operator_fixture.run(2)
    assert operator_fixture.status["restarts"]["consecutiveFailures"] == 0
    operator_fixture.driver_ends(2, FAILED)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Restarting"


@pytest.mark.parametrize(
    ("reason", "code", "expected"), [("OOMKilled", 137, "OOMKilled"), ("Error", 137, "DriverKilled")]
)
async def test_a_killed_driver_is_restarted(
    operator_fixture: OperatorFixture, reason: str, code: int, expected: str
) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, code=code, reason=reason)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["outcome"] == "Killed"
    assert operator_fixture.status["reason"] == expected
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_an_evicted_driver_without_container_statuses_is_restarted(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["status"] = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    }
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "Evicted"
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


@pytest.mark.parametrize("words", [FAILED, None], ids=["last words", "killed"])
async def test_a_dead_driver_next_to_a_sidecar_that_runs_on_is_restarted(
    operator_fixture: OperatorFixture, words: Termination | None
) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, words, code=1)
    status = operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["status"]
    status["phase"] = "Running"
    status["containerStatuses"].insert(0, {"name": "proxy", "state": {"running": {}}})
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.ready["status"]) == ("Restarting", "False")
    assert operator_fixture.status["reason"] == (words.reason if words is not None else "DriverFailed")
    assert operator_fixture.status["restarts"]["consecutiveFailures"] == 1
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1], "the sidecar has not gone yet"
    assert operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]["deletionTimestamp"]
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_a_vanished_driver_is_restarted_and_its_executors_go_first(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    executor = operator_fixture.kubernetes.add_executor(KEY, 1)
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "DriverMissing"
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.drivers == []  # the executor is still terminating
    assert operator_fixture.kubernetes.pods(KEY)[0]["metadata"]["deletionTimestamp"]
    operator_fixture.kubernetes.remove(("Pod", "team", executor))
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_a_driver_deleted_by_hand_drains_and_is_followed_without_a_failure(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.wait(300)
    operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]["deletionTimestamp"] = (
        "2026-11-21T12:05:00Z"
    )
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Restarting", "DriverStopping")
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["restarts"].get("consecutiveFailures", 0) == 0
    assert operator_fixture.status["restarts"]["total"] == 1


async def test_a_termination_message_counts_although_the_pod_is_gone(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FATAL)
    seen = pod_view(operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"])
    assert seen is not None
    operator_fixture.cache.put_pod(KEY, seen)
    operator_fixture.cache.drop_pod(KEY, seen.uid)
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "InvalidTransform")


async def test_suspend_drains_and_resume_continues_with_the_next_attempt(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspending"
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    assert operator_fixture.drivers == []
    operator_fixture.wait(1000)
    await operator_fixture.settle()
    assert operator_fixture.drivers == []
    operator_fixture.kubernetes.edit_job(KEY, suspend=False)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["attempt"]["startReason"] == "Resumed"
    assert operator_fixture.status["restarts"]["total"] == 0
    assert {"Suspending", "Suspended", "Resumed"} <= set(operator_fixture.kubernetes.events(warning=False))
    assert operator_fixture.kubernetes.events(warning=True) == []


@pytest.mark.parametrize(
    ("limit", "until"),
    [
        (600, "its time-out of 600 s has passed"),
        (0, "a person ends it: it may have no time-out"),
    ],
)
@pytest.mark.parametrize(
    ("words", "cause"), [(None, "Killed"), (FAILED, "Failed")], ids=["killed in the drain", "failed in the drain"]
)
async def test_a_suspended_job_whose_drain_was_not_orderly_says_what_may_be_left_open(
    words: Termination | None, cause: str, limit: int, until: str
) -> None:
    operator_fixture = OperatorFixture(sink={"topic": "enriched", "transactions": {"timeoutSeconds": limit}})
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True, sink={"topic": "enriched"})
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, words, code=137)
    for _ in range(3):
        await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    message = operator_fixture.status["message"]
    assert f"did not drain in order ({cause})" in message
    assert "read_committed readers" in message
    assert "python3 -m sparkapp txn list --namespace team --job orders" in message
    assert operator_fixture.ready["message"] == message
    assert operator_fixture.kubernetes.events(warning=True) == ["NotDrained"]
    operator_fixture.kubernetes.edit_job(KEY, suspend=False)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert f"may hold back read_committed readers until {until}. " in message


async def test_a_job_that_is_suspended_while_it_waits_after_a_failure_says_so_too(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, code=137)
    await operator_fixture.settle()
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    assert "txn list" in operator_fixture.status["message"]


@pytest.mark.parametrize("delivery_guarantee", ["ExactlyOnce", "AtLeastOnce"])
async def test_an_orderly_drain_leaves_nothing_to_say(
    delivery_guarantee: str,
) -> None:
    operator_fixture = OperatorFixture(sink={"topic": "enriched", "deliveryGuarantee": delivery_guarantee})
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED if delivery_guarantee == "ExactlyOnce" else None, code=137)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    assert "transaction" not in operator_fixture.status["message"]
    assert ("did not drain" in operator_fixture.status["message"]) is (delivery_guarantee == "AtLeastOnce")


async def test_a_job_created_suspended_starts_nothing() -> None:
    operator_fixture = OperatorFixture(suspend=True)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    assert operator_fixture.kubernetes.driver_attempts == []
    operator_fixture.kubernetes.edit_job(KEY, suspend=False)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_a_rescale_drains_first_and_says_so(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Rescaling", "RescaleStarted")
    assert "from 2 to 3" in operator_fixture.status["message"]
    assert operator_fixture.status["parallelism"] == 2
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert (operator_fixture.status["state"], operator_fixture.status["parallelism"]) == ("Rescaling", 3)
    await operator_fixture.run(2)
    assert operator_fixture.status["state"] == "Running"
    assert operator_fixture.ready["status"] == "True"
    assert {"RescaleStarted", "Rescaled"} <= set(operator_fixture.kubernetes.events())


async def test_another_spec_drains_and_restarts(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, image="kafkaspark/sparkapp:2")
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Restarting", "SpecChanged")
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["attempt"]["generation"] == 2


async def test_a_change_that_does_not_concern_the_application_restarts_nothing(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, restartPolicy={"maxConsecutiveFailures": 7})
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["attempt"]["generation"] == 2
    assert operator_fixture.ready["status"] == "True"
    assert operator_fixture.ready["observedGeneration"] == 2


async def test_an_invalid_edit_leaves_the_job_running_and_says_what_to_type(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, sink={"topic": "orders"})
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    valid = operator_fixture.kubernetes.condition(KEY, "ConfigValid")
    assert valid["status"] == "False"
    assert "also a source topic" in valid["message"]
    assert operator_fixture.ready["status"] == "False"
    # Should its driver fail meanwhile, the last valid spec continues.
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["attempt"]["generation"] == 1
    assert operator_fixture.status["attempt"]["startReason"] == "Restarted"


async def test_an_invalid_first_spec_starts_nothing() -> None:
    operator_fixture = OperatorFixture(sink={"topic": "orders"})
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "InvalidSpec")
    assert kinds(operator_fixture) == []


async def test_a_lost_state_is_never_replaced_by_an_empty_one(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.remove(("ConfigMap", "team", "orders-state"))
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "StateMissing")
    assert operator_fixture.kubernetes.condition(KEY, "StateValid")["reason"] == "StateMissing"
    assert ("ConfigMap", "orders-state") not in kinds(operator_fixture)[1:]
    assert operator_fixture.kubernetes.driver_attempts == [1]


async def test_an_emptied_state_counts_as_lost(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.objects["ConfigMap", "team", "orders-state"]["data"] = {}
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "StateMissing"


async def test_the_next_attempt_is_numbered_above_the_number_in_any_state(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.checkpoint(7, 10)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1, 8]


async def test_a_lost_status_does_not_hide_a_lost_state(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.remove(("ConfigMap", "team", "orders-state"))
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    operator_fixture.kubernetes.job(KEY)["status"] = {}
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "StateMissing"
    assert operator_fixture.kubernetes.driver_attempts == [1]


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "StateCorrupt"), ('{"formatVersion":1,"jobUid":"another"}', "StateForeign")]
)
async def test_an_unreadable_state_starts_nothing_until_it_is_restored(
    operator_fixture: OperatorFixture, text: str, reason: str
) -> None:
    await operator_fixture.run(1)
    document = operator_fixture.kubernetes.objects["ConfigMap", "team", "orders-state"]["data"]["checkpoint.json"]
    operator_fixture.kubernetes.set_data(KEY, "orders-state", "checkpoint.json", text)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == reason
    assert operator_fixture.drivers == ["orders-1-driver"]
    operator_fixture.kubernetes.set_data(KEY, "orders-state", "checkpoint.json", document)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.kubernetes.condition(KEY, "StateValid")["status"] == "True"


async def test_a_recreated_job_waits_until_its_namesakes_state_is_collected(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    body = job_body()
    body["metadata"]["uid"] = "another-resource"
    operator_fixture.kubernetes.remove((names.KIND, "team", "orders"))
    operator_fixture.kubernetes.add_job(body)
    await operator_fixture.look(3)
    assert operator_fixture.kubernetes.pods(KEY)[0]["metadata"][
        "deletionTimestamp"
    ]  # the stranger's driver has to stop
    assert operator_fixture.kubernetes.driver_attempts == [1]
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.look(2)
    assert operator_fixture.status["reason"] == "AwaitingCollection"
    for place in list(operator_fixture.kubernetes.objects):
        if place[0] in {"ConfigMap", "ServiceAccount", "Role", "RoleBinding"} and place[2] != record_name(1):
            operator_fixture.kubernetes.remove(place)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]  # not 1: that name may still mean something to somebody


async def test_restarting_the_operator_touches_no_pod(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    await operator_fixture.settle()
    before, writes = operator_fixture.kubernetes.pods(KEY), len(operator_fixture.kubernetes.writes)
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.pods(KEY) == before
    assert len(operator_fixture.kubernetes.writes) == writes


async def test_a_lost_status_adopts_the_running_driver(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.job(KEY)["status"] = {}
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert operator_fixture.status["attempt"]["id"] == 1
    assert operator_fixture.status["attempt"]["generation"] == 1
    assert operator_fixture.status["state"] == "Running"


async def test_a_driver_that_another_operator_makes_is_known_by_its_description(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ConfigMaps are listed after the pods, and made before them."""
    await operator_fixture.run(1)
    made = [each for each in operator_fixture.kubernetes.objects if each[2] in {record_name(1), "orders-1-driver"}]
    absent = {place: operator_fixture.kubernetes.objects.pop(place) for place in made}
    operator_fixture.kubernetes.job(KEY)["status"] = {}
    operator_fixture.restart_operator()
    listed = operator_fixture.kubernetes.list_pods

    async def list_pods(key: Any) -> Any:
        operator_fixture.kubernetes.objects.update(absent)
        return await listed(key)

    monkeypatch.setattr(operator_fixture.kubernetes, "list_pods", list_pods)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert (operator_fixture.status["attempt"]["id"], operator_fixture.status["attempt"]["generation"]) == (1, 1)


async def test_pods_of_a_previous_attempt_next_to_a_live_driver_are_stopped(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.run(2)
    name = operator_fixture.kubernetes.add_executor(KEY, 1)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.objects["Pod", "team", name]["metadata"]["deletionTimestamp"]
    assert operator_fixture.status["state"] == "Running"


async def test_a_pod_that_does_not_go_away_is_waited_for_and_named(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    operator_fixture.wait(10_000)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert operator_fixture.status["reason"] == "PodNotTerminating"
    assert "--force" in operator_fixture.status["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["PodNotTerminating"]


async def test_a_pod_that_ended_in_its_deletion_is_removed_without_the_kubelets_last_look(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    executor = operator_fixture.kubernetes.add_executor(KEY, 1)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.look()
    assert operator_fixture.drivers == []
    assert [pod["metadata"]["name"] for pod in operator_fixture.kubernetes.pods(KEY)] == [executor]
    operator_fixture.kubernetes.pod_ends(executor)
    await operator_fixture.look()
    assert operator_fixture.kubernetes.pods(KEY) == []


async def test_the_time_of_a_pods_deletion_has_its_grace_in_it(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    # Asked to stop at noon, with 120 s of grace.
    meta = operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    meta["deletionTimestamp"] = "2026-11-21T12:02:00Z"
    operator_fixture.wait(120 + 29)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "RescaleStarted"
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "PodNotTerminating"


async def test_a_refused_pod_leaves_its_number_free(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.refuse_pods = 'pods "orders-1-driver" is forbidden: exceeded quota: compute'
    for _ in range(3):
        with pytest.raises(ObjectRefused):
            await operator_fixture.look()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Pending", "QuotaExceeded")
    assert operator_fixture.status["message"].endswith("kubectl describe quota -n team")
    assert operator_fixture.kubernetes.events(warning=True) == ["QuotaExceeded"]
    operator_fixture.kubernetes.refuse_pods = ""
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_the_drivers_events_are_published_once_each(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.report(1, events=(report_event(1), report_event(2, "OffsetsSkipped", "Warning")))
    await operator_fixture.settle()
    operator_fixture.report(1, events=(report_event(1), report_event(2, "OffsetsSkipped", "Warning"), report_event(3)))
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.events().count("PartitionAdded") == 2
    assert operator_fixture.kubernetes.events(warning=True) == ["OffsetsSkipped"]
    operator_fixture.wait(3601)
    operator_fixture.kubernetes.objects = {
        place: body for place, body in operator_fixture.kubernetes.objects.items() if place[0] != "Event"
    }
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert "PartitionAdded" not in operator_fixture.kubernetes.events(), "Kubernetes has forgotten them meanwhile"


async def test_a_report_of_another_attempt_says_nothing_about_this_one(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    await operator_fixture.settle()
    assert operator_fixture.status["message"].startswith("the driver checks Kafka and the code")
    assert operator_fixture.ready["status"] == "False"


async def test_a_stalled_checkpoint_is_shown(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    operator_fixture.report(1, checkpoint_id=10, checkpoint_time="2026-11-21T12:00:00Z", lag_records=5)
    await operator_fixture.settle()
    operator_fixture.wait(59)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "CheckpointStalled"
    assert operator_fixture.kubernetes.events(warning=True) == ["CheckpointStalled"]


async def test_a_deleted_resource_is_left_to_kubernetes(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.job(KEY)["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    writes = len(operator_fixture.kubernetes.writes)
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.look(3)
    assert len(operator_fixture.kubernetes.writes) == writes


async def test_old_descriptions_of_attempts_are_removed(operator_fixture: OperatorFixture) -> None:
    for attempt in range(1, 5):
        await operator_fixture.run(attempt)
        operator_fixture.driver_ends(attempt, FAILED)
        await operator_fixture.settle()
        operator_fixture.wait(300)
        await operator_fixture.settle()
    kept = [
        place[2]
        for place in operator_fixture.kubernetes.objects
        if place[0] == "ConfigMap" and place[2].endswith("-job")
    ]
    assert kept == [record_name(4), record_name(5)]


async def test_S37_the_status_shows_commits_of_group_offsets(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run()
    operator_fixture.report(1, commits_succeeded=7, commits_failed=2)
    await operator_fixture.settle()
    assert operator_fixture.status["source"]["commitsSucceeded"] == 7
    assert operator_fixture.status["source"]["commitsFailed"] == 2


def error_kinds(kind: type[KafkaSparkJobError] = KafkaSparkJobError) -> list[type[KafkaSparkJobError]]:
    """Every kind of error that an attempt can end with."""
    return [kind, *(each for child in kind.__subclasses__() for each in error_kinds(child))]


NEVER = {CommandRefused, InputUnreadable, ListingUnsupported}
"""A command for people, and what is always done without."""
PRODUCT = [kind for kind in error_kinds() if kind.__module__.startswith(errors.__name__)]
ENDS = sorted({kind.reason: kind for kind in PRODUCT if kind not in NEVER}.items())
REASONS = Path(__file__).parents[4] / "docs/reasons.md"


def promised(condition: str) -> set[str]:
    """The reasons that the documentation names for a condition."""
    return {row[1].strip(" `") for row in failures() if row[2].strip(" `") == condition}


def failures() -> list[list[str]]:
    """Cells of the documentation's table of failures."""
    table = REASONS.read_text(encoding="utf-8").split("## Failures of an attempt")[1].split("\n## ")[0]
    return [line.split("|") for line in table.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(("reason", "kind"), ENDS)
async def test_every_reason_that_ends_an_attempt_shows_where_the_documentation_says(
    operator_fixture: OperatorFixture, reason: str, kind: type[KafkaSparkJobError]
) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, termination_of(kind("what happened")))
    await operator_fixture.settle()
    assert (operator_fixture.ready["status"], operator_fixture.ready["reason"]) == ("False", reason)
    assert kind.default_remedy.replace("-n NAMESPACE", "-n team") in operator_fixture.ready["message"]
    assert operator_fixture.status["state"] == ("Failed" if kind.fatal else "Restarting")
    for condition, without in (("KafkaReachable", "Unknown"), ("StateValid", "True")):
        found = operator_fixture.kubernetes.condition(KEY, condition)
        if reason in promised(condition):
            assert (found["status"], found["reason"]) == ("False", reason), condition
        else:
            assert found["status"] == without, condition


@pytest.mark.parametrize(("reason", "kind"), ENDS)
def test_every_reason_that_ends_an_attempt_is_in_the_table_of_failures(
    reason: str, kind: type[KafkaSparkJobError]
) -> None:
    rows = [row for row in failures() if f"`{reason}`" in row[1]]
    assert len(rows) == 1, kind.__doc__
    assert rows[0][3].strip() in {"no" if kind.fatal else "yes", "by its cause"}


def test_a_state_that_is_not_valid_needs_a_person() -> None:
    by_condition = {
        condition: {reason for reason, found in CONDITION_BY_REASON.items() if found == condition}
        for condition in ("StateValid", "KafkaReachable")
    }
    assert promised("StateValid") == by_condition["StateValid"]
    assert all(kind.fatal for reason, kind in ENDS if reason in by_condition["StateValid"])
    assert promised("KafkaReachable") == by_condition["KafkaReachable"]


async def test_the_oldest_open_transaction_is_a_condition_that_time_alone_changes(
    operator_fixture: OperatorFixture,
) -> None:
    def shown() -> tuple[str, str]:
        condition = operator_fixture.kubernetes.condition(KEY, "TransactionsHealthy")
        return condition["status"], condition["reason"]

    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    assert shown() == ("Unknown", "NotObserved"), "the driver has not looked yet"
    operator_fixture.report(1, transactions_known=True)
    await operator_fixture.settle()
    assert shown() == ("True", "NoneOverdue")
    assert operator_fixture.status["transactions"]["open"] == 0
    began = "2026-11-21T12:00:00Z"
    operator_fixture.report(1, transactions_known=True, transactions_open=2, oldest_transaction_time=began)
    await operator_fixture.settle()
    operator_fixture.wait(59)
    await operator_fixture.settle()
    assert shown() == ("True", "NoneOverdue")
    assert (
        operator_fixture.status["transactions"]["open"],
        operator_fixture.status["transactions"]["oldestOpenTime"],
    ) == (2, began)
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert shown() == ("False", "TransactionOverdue")
    assert operator_fixture.kubernetes.events(warning=True) == ["TransactionOverdue"]
    message = operator_fixture.kubernetes.condition(KEY, "TransactionsHealthy")["message"]
    assert "list it: `python3 -m sparkapp txn list --namespace team --job orders`" in message
    operator_fixture.driver_ends(1)
    await operator_fixture.settle()
    assert shown() == ("Unknown", "NotObserved")
    assert not {"open", "oldestOpenTime"} & operator_fixture.status.get("transactions", {}).keys(), (
        "no old number is shown"
    )
