"""The operator as a process, with the chart's rights, against a real API server; the test plays driver and kubelet."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.identity import FINALIZER
from sparkapp.model import names
from sparkapp.model.event_reason import DriverEvent, Durability
from sparkapp.model.job.codec import decode_job
from sparkapp.model.report import ReportEvent
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, ROTATED
from tests.support.kubernetes.operator_process import Running


@pytest.fixture
def job(api: ApiClient, running: Running) -> LiveJob:
    return LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")


def test_a_job_comes_up_and_reports_its_progress(job: LiveJob, running: Running) -> None:
    job.create()
    job.run(1)
    status = job.status
    assert job.condition("Ready")["status"] == "True"
    assert (status["attempt"]["id"], status["parallelism"], status["checkpoint"]["id"]) == (1, 2, 10)
    assert status["engine"] == {"name": "MicroBatch", "message": "set by spec.engine"}
    assert status["observedGeneration"] == 1
    assert ("Submitted", 1) in job.events
    assert running.operator.read("/healthz") == running.operator.read("/readyz") == "ok"
    ready = f'kafkaspark_job_ready{{job="{job.name}",namespace="{job.namespace}"}} 1.0'
    await_that("a gauge says so", lambda: ready in running.operator.read("/metrics"))
    # Nothing of kopf's is on the resource.
    assert "finalizers" not in job.body["metadata"]
    assert "annotations" not in job.body["metadata"]


def test_topics_with_one_copy_are_a_lasting_warning_of_a_ready_job(job: LiveJob) -> None:
    job.create()
    job.run(1)
    assert job.condition("TransactionsDurable")["reason"] == "NotObserved"
    said = "topic enriched has one copy"
    event = ReportEvent(
        sequence=1, type="Warning", reason=DriverEvent.TRANSACTIONS_NOT_DURABLE, message=said,
        time=format_time(datetime.now(UTC)),
    )  # fmt: skip
    for _ in range(2):
        job.report(
            1, checkpoint_id=10, engine="MicroBatch", durability=Durability.NOT_REPLICATED, durability_message=said,
            events=(event,),
        )  # fmt: skip
        await_that("the condition", lambda: job.condition("TransactionsDurable").get("status") == "False")
    found = job.condition("TransactionsDurable")
    assert (found["reason"], found["message"]) == ("NotReplicated", said)
    assert (job.status["state"], job.condition("Ready")["status"]) == ("Running", "True")
    await_that("the event", lambda: ("TransactionsNotDurable", 1) in job.events)
    assert [reason for reason, _ in job.events] == ["Submitted", "TransactionsNotDurable"]


def test_the_executors_that_spark_would_create_are_admitted_as_restricted(job: LiveJob) -> None:
    job.put_modules("code", "one")
    job.create(
        transform={"python": {"function": "a:b", "configMapRef": {"name": "code"}}},
        kafka={
            "tls": {},
            "authentication": {"type": "scram-sha-512", "username": "u", "passwordSecret": {"secretName": "s"}},
        },
    )
    job.run(1)
    name = job.add_executor(1)
    pod = job.api.call("GET", f"{job.pods_path}/{name}")
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_pods_mount_an_immutable_copy_of_the_modules(job: LiveJob) -> None:
    """The real API server: the copy and the revision are the operator's, and an edit of the source is a new copy."""
    job.put_modules("code", "one")
    job.create(transform={"python": {"function": "a:b", "configMapRef": {"name": "code"}}})
    job.run(1)
    found = []
    for attempt in (1, 2):
        pod = job.api.call("GET", f"{job.pods_path}/{names.driver_pod(job.name, attempt)}")
        name = next(each["configMap"]["name"] for each in pod["spec"]["volumes"] if each["name"] == "code")
        copy = job.api.call("GET", f"{job.config_maps_path}/{name}")
        revision = job.api.call("GET", f"{job.config_maps_path}/{job.status['attempt']['revision']}")
        assert copy["immutable"] is revision["immutable"] is True
        assert revision["metadata"]["annotations"]["kafkaspark.io/modules"] == name
        found.append(copy["data"])
        if attempt == 1:
            job.put_modules("code", "two")
            job.await_deletion(1)
            job.release(1)
            job.run(2)
    assert found == [{"a.py": "one"}, {"a.py": "two"}]


def test_the_driver_may_do_what_it_needs_and_nothing_else(job: LiveJob) -> None:
    job.create()
    job.await_driver(1, hold=False)
    driver = f"system:serviceaccount:{job.namespace}:{job.name}-driver"

    def may(verb: str, resource: str, name: str = "") -> bool:
        attributes = {"namespace": job.namespace, "verb": verb, "resource": resource, "name": name}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        review |= {"spec": {"user": driver, "resourceAttributes": attributes}}  # type: ignore[dict-item]
        answer = job.api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    await_that("the API server has learnt of the rights", lambda: may("get", "configmaps", f"{job.name}-state"))
    for verb in ("get", "patch"):
        assert may(verb, "configmaps", f"{job.name}-state")
        assert may(verb, "configmaps", f"{job.name}-checkpoints")
        assert may(verb, "configmaps", f"{job.name}-report")
        assert not may(verb, "configmaps", names.attempt_config_map(job.name, job.uid(), 1))
        assert not may(verb, "configmaps", "another-state")
    for verb in ("create", "update", "delete", "list", "watch"):
        assert not may(verb, "configmaps", f"{job.name}-state")
    for verb in ("create", "get", "list", "watch", "delete", "deletecollection"):
        assert may(verb, "pods")
    for verb in ("update", "patch"):
        assert not may(verb, "pods")
    for resource in ("secrets", "services", "persistentvolumeclaims", "serviceaccounts", "pods/exec"):
        assert not any(may(verb, resource) for verb in ("get", "list", "create"))
    assert not may("patch", "kafkasparkjobs")


def test_a_failure_is_followed_by_another_attempt_once_nothing_is_left(job: LiveJob) -> None:
    job.create(restartPolicy={"backoff": {"initialSeconds": 1}})
    job.run(1)
    executor = job.add_executor(1)
    job.api.merge(f"{job.pods_path}/{executor}", {"metadata": {"finalizers": ["tests.kafkaspark.io/kubelet"]}})
    job.ends(1, FAILED)
    status = job.await_state("Restarting", reason="KafkaUnreachable")
    assert "check the brokers" in status["message"]
    await_that(
        "the executor is being deleted",
        lambda: "deletionTimestamp" in job.api.call("GET", f"{job.pods_path}/{executor}")["metadata"],
    )
    await_that("the pause is over", lambda: _past(job.status["restarts"]["nextRetryTime"]))
    assert [each["metadata"]["name"] for each in job.pods if each["metadata"]["name"].endswith("driver")] == [
        f"{job.name}-1-driver"
    ]
    job.api.merge(f"{job.pods_path}/{executor}", {"metadata": {"finalizers": None}})
    job.await_deletion(1)
    job.release(1)
    job.run(2)
    assert job.status["restarts"] == {"total": 1, "consecutiveFailures": 1, "lastReason": "KafkaUnreachable"}
    assert [reason for reason, count in job.events if count == 1] == [
        "Submitted", "KafkaUnreachable", "RestartScheduled", "Submitted",
    ]  # fmt: skip


def test_an_attempt_that_drains_for_new_credentials_is_followed_at_once(job: LiveJob) -> None:
    job.create(restartPolicy={"maxConsecutiveFailures": 1, "backoff": {"initialSeconds": 3600, "maxSeconds": 3600}})
    job.run(1)
    executor = job.add_executor(1)
    job.api.merge(f"{job.pods_path}/{executor}", {"metadata": {"finalizers": ["tests.kafkaspark.io/kubelet"]}})
    job.checkpoint(1, 11, drained=True)
    job.ends(1, ROTATED, code=0, reason="Completed")
    assert job.await_state("Restarting", reason="CredentialsChanged")["restarts"]["total"] == 1
    job.api.merge(f"{job.pods_path}/{executor}", {"metadata": {"finalizers": None}})
    job.await_deletion(1)
    job.release(1)
    job.run(2, checkpoint=12)
    assert job.status["restarts"] == {"total": 1, "lastReason": "CredentialsChanged"}
    assert [reason for reason, _ in job.events] == ["Submitted", "RestartScheduled", "Submitted"]


def test_scale_drains_and_continues_with_the_new_parallelism(job: LiveJob) -> None:
    job.create()
    job.run(1)
    job.api.merge(f"{job.path}/scale", {"spec": {"replicas": 3}})
    job.await_state("Rescaling", reason="RescaleStarted")
    job.await_deletion(1)
    job.checkpoint(1, 11, drained=True)
    job.ends(1, DRAINED, code=0, reason="Completed")
    job.release(1)
    job.run(2, checkpoint=12)
    assert job.api.call("GET", f"{job.path}/scale")["status"]["replicas"] == 3
    assert job.status["restarts"]["total"] == 0
    assert [reason for reason, _ in job.events] == ["Submitted", "RescaleStarted", "Submitted", "Rescaled"]


def test_suspend_and_resume(job: LiveJob) -> None:
    job.create()
    job.run(1)
    job.edit(suspend=True)
    job.await_state("Suspending")
    job.await_deletion(1)
    job.ends(1, DRAINED, code=0, reason="Completed")
    job.release(1)
    job.await_state("Suspended")
    assert job.pods == []
    job.edit(suspend=False)
    job.run(2)
    assert [reason for reason, _ in job.events] == [
        "Submitted", "Suspending", "Suspended", "Resumed", "Submitted",
    ]  # fmt: skip


def test_a_fatal_failure_waits_for_a_person(job: LiveJob) -> None:
    job.create()
    job.run(1)
    job.ends(1, FATAL)
    status = job.await_state("Failed", reason="InvalidTransform")
    assert status["lastFailure"]["fatal"] is True
    job.api.merge(f"{job.path}/scale", {"spec": {"replicas": 4}})
    await_that("the scale is seen", lambda: ("ScaleIgnored", 1) in job.events)
    status = job.await_state("Failed", reason="InvalidTransform")
    assert f"kubectl patch ksj {job.name} -n {job.namespace}" in status["message"]
    assert "restartNonce" in status["message"]
    assert status["attempt"]["id"] == 1
    job.edit(restartNonce=1)
    job.await_deletion(1)
    job.release(1)
    job.run(2)


def test_a_lost_state_stops_the_job(job: LiveJob) -> None:
    job.create(restartPolicy={"backoff": {"initialSeconds": 0}})
    job.run(1)
    job.api.call("DELETE", f"{job.config_maps_path}/{job.name}-state")
    job.ends(1, FAILED)
    status = job.await_state("Failed", reason="StateMissing")
    condition = job.condition("StateValid")
    assert (condition["status"], condition["reason"]) == ("False", "StateMissing")
    for text in (status["message"], condition["message"]):
        assert f"ConfigMap {job.name}-state is gone or empty, although 1 attempt(s) ran" in text
        assert f"ConfigMap {job.name}-checkpoints exists" in text
        assert f"`python3 -m sparkapp checkpoint list --namespace {job.namespace} --job {job.name}`" in text
    assert job.api.get(f"{job.config_maps_path}/{job.name}-checkpoints") is not None
    assert job.api.get(f"{job.config_maps_path}/{job.name}-state") is None


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        ({"data": {names.CHECKPOINT_KEY: "{"}}, "StateCorrupt"),
        ({"data": {names.CHECKPOINT_KEY: None}, "binaryData": {names.CHECKPOINT_KEY: "H4sI"}}, "StateCorrupt"),
        ({"data": {names.CHECKPOINT_KEY: None, "backup.json": "{}"}}, "StateCorrupt"),
        ({"data": {names.CHECKPOINT_KEY: None}}, "StateMissing"),
        ({"data": {names.CHECKPOINT_KEY: '{"formatVersion":1,"jobUid":"another"}'}}, "StateForeign"),
    ],
)
def test_a_spoilt_state_is_a_condition_and_starts_nothing(job: LiveJob, spoilt: dict[str, object], reason: str) -> None:
    """Every way to spoil it is in test_state_adversaries.py; here is what becomes of the refusal."""
    job.create(restartPolicy={"backoff": {"initialSeconds": 0}})
    job.run(1)
    path = f"{job.config_maps_path}/{job.name}-state"
    before = job.api.merge(path, spoilt)
    job.ends(1, FAILED)
    status = job.await_state("Failed", reason=reason)
    condition = job.condition("StateValid")
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert condition["message"] == status["message"]
    assert (reason, 1) in job.events
    assert job.api.call("GET", path) == before
    assert job.status["attempt"]["id"] == 1


def test_an_invalid_change_leaves_the_job_running(job: LiveJob) -> None:
    job.create()
    job.run(1)
    offsets = [{"topic": "another", "partition": 0, "offset": 7}]
    # CEL does not compare the two lists, the operator does.
    job.edit(source={"startup": {"mode": "SpecificOffsets", "specificOffsets": offsets}})
    await_that("the condition says so", lambda: job.condition("ConfigValid").get("status") == "False")
    assert "topic 'another' is not in source.topics" in job.condition("ConfigValid")["message"]
    assert job.status["state"] == "Running"
    assert job.condition("Ready")["status"] == "False"
    job.edit(source={"startup": {"mode": "GroupOffsets", "specificOffsets": None}})
    await_that("it is ready again", lambda: job.condition("Ready")["status"] == "True")
    assert len(job.pods) == 1


def test_an_expression_that_backtracks_holds_up_nobody(job: LiveJob, running: Running) -> None:
    """Python's engine needs 2²⁰⁰ steps for this one; its time would be every job's."""
    other = LiveJob(job.api, job.namespace, f"{job.name}-other")
    job.create(source={"topics": None, "topicPattern": "(a+)+b"}, sink={"topic": "a" * 200})
    job.run(1)
    other.create()
    other.run(1)
    assert running.operator.read("/healthz") == "ok"
    assert job.condition("ConfigValid")["status"] == "True"


def test_a_forged_driver_moves_nobody(job: LiveJob) -> None:
    """By somebody who may create pods in the namespace."""
    other = LiveJob(job.api, job.namespace, f"{job.name}-other")
    for each in (job, other):
        each.create()
        each.run(1)
    executor = job.add_executor(1)
    name = f"{job.name}-999999999-driver"
    owner = job.api.call("GET", f"{job.pods_path}/{job.name}-1-driver")["metadata"]["ownerReferences"]
    pod = job.api.call("GET", f"{job.pods_path}/{executor}")
    pod["metadata"] = {
        "name": name, "ownerReferences": owner,
        "labels": names.labels(job.name, attempt=999999999, role=names.ROLE_DRIVER),
    }  # fmt: skip
    pod.pop("status")
    job.api.call("POST", job.pods_path, pod)
    await_that("the forged pod is named", lambda: ("ForeignObject", 1) in job.events)
    message = next(
        each["message"]
        for each in job.api.items(f"/api/v1/namespaces/{job.namespace}/events")
        if each["reason"] == "ForeignObject" and each["involvedObject"]["name"] == job.name
    )
    assert message.startswith(f"pod {name} (driver, attempt 999999999) has this job's labels")
    await_that("the forged pod is gone", lambda: job.api.get(f"{job.pods_path}/{name}") is None)
    assert sorted(each["metadata"]["name"] for each in job.pods) == [f"{job.name}-1-driver", executor]
    assert not any("deletionTimestamp" in each["metadata"] for each in job.pods)
    assert (job.status["state"], job.status["attempt"]["id"]) == ("Running", 1)


def test_deleting_the_resource_takes_everything_with_it(job: LiveJob, running: Running) -> None:
    job.create()
    job.run(1, hold=False)
    executor = job.add_executor(1)
    job.api.call("DELETE", job.path)
    selector = f"{names.LABEL_JOB}={job.name}"
    for path in (
        job.pods_path, job.config_maps_path, f"/api/v1/namespaces/{job.namespace}/serviceaccounts",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{job.namespace}/roles",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{job.namespace}/rolebindings",
        f"/apis/networking.k8s.io/v1/namespaces/{job.namespace}/networkpolicies",
    ):  # fmt: skip
        # The collector looks for new kinds of owners every 30 s.
        await_that(f"nothing is left of {path}", lambda path=path: job.api.items(path, selector) == [])
    assert job.api.get(f"{job.pods_path}/{executor}") is None
    await_that("the job's metrics are gone", lambda: f'job="{job.name}"' not in running.operator.read("/metrics"))


def test_a_namesake_does_not_inherit_anything(job: LiveJob) -> None:
    job.create()
    job.run(1)
    previous = job.uid()
    job.api.call("DELETE", job.path)
    job.create()
    job.await_deletion(1)
    job.await_state("Pending")
    assert len(job.pods) == 1  # the previous resource's driver drains; nothing of the new resource runs meanwhile
    job.release(1)
    await_that("an attempt starts", lambda: job.status.get("attempt"))
    status = job.status
    assert job.uid() != previous
    state = job.api.call("GET", f"{job.config_maps_path}/{job.name}-state")
    assert state["metadata"]["annotations"]["kafkaspark.io/job-uid"] == job.uid()
    assert "data" not in state
    assert status["restarts"]["total"] == 0


def _past(time: str) -> bool:
    from kafkasparkjob_operator.clock import now, parse_time

    moment = parse_time(time)
    return moment is not None and now() > moment


def test_a_crashed_job_without_a_time_out_is_deleted_when_it_is_settled(job: LiveJob) -> None:
    """With the chart's rights, the API server's own finalizers, and a status as its definition lets it through."""
    job.create(sink={"transactions": {"timeoutSeconds": 0}}, restartPolicy={"backoff": {"initialSeconds": 300}})
    job.run(1, hold=False)
    assert job.body["metadata"]["finalizers"] == [FINALIZER]
    job.ends(1, FAILED)
    job.await_state("Restarting", reason="KafkaUnreachable")
    job.api.call("DELETE", job.path)
    job.await_driver(2, hold=False)
    record = job.record(2)
    assert decode_job(record["data"][names.JOB_KEY]).settles_only
    await_that("the status has the attempt", lambda: job.status["attempt"]["startReason"] == "Deleted")
    assert job.status["state"] == "Deleting"
    assert job.condition("Settled")["status"] == "False"
    job.checkpoint(2, 10, drained=True)
    job.ends(2, DRAINED, code=0, reason="Completed")
    await_that("the resource is gone", lambda: job.api.get(job.path) is None)
    reasons = [reason for reason, _ in job.events]
    assert "TransactionsSettled" in reasons
    assert "TransactionsLeftOpen" not in reasons


def test_a_deletion_without_a_state_to_settle_by_does_not_wait(job: LiveJob) -> None:
    job.create(sink={"transactions": {"timeoutSeconds": 0}}, restartPolicy={"backoff": {"initialSeconds": 300}})
    job.run(1, hold=False)
    job.ends(1, FAILED)
    job.await_state("Restarting", reason="KafkaUnreachable")
    job.api.call("DELETE", f"{job.config_maps_path}/{names.state_config_map(job.name)}")
    job.api.call("DELETE", job.path)
    await_that("the resource is gone", lambda: job.api.get(job.path) is None)
    assert "TransactionsLeftOpen" in [reason for reason, _ in job.events]
