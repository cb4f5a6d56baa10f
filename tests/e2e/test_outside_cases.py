"""Faults that a reading from outside found on the cluster, each by its reproduction."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusterjob import installation
from clusterjob.installation import IMAGE_OF
from clusterjob.kubectl import CommandFailed, Kubectl
from clusterjob.live_job import KIND, Status, condition_of
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

RECORDS = 2_000
START_SECONDS = 420
"""A step of a start has 300 s. The driver and the operator then take some seconds."""
HANG_SECONDS = 150
"""A function that hangs takes Ready away within 60 s, or within five checkpoint intervals."""
OPERATOR = f"system:serviceaccount:{installation.NAMESPACE}:kafkaspark-operator"
JVM = 'for each in /proc/[0-9]*; do case "$(readlink $each/exe)" in */java) kill -{} "${{each#/proc/}}";; esac; done'

SLOW = "import time\n\ndef same(source):\n    time.sleep(20)\n    return source\n"
HANGING = """
import pathlib, time

def hold(batches):
    for batch in batches:
        while pathlib.Path("/tmp/hang").exists():
            time.sleep(0.2)
        yield batch

def same(source):
    return source.mapInArrow(hold, source.schema)
"""


def code(cluster_job: ClusterJob, text: str) -> dict[str, Any]:
    """The field ``transform`` of a job that runs ``text``."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"outside.py": text}}
    cluster_job.kubectl.apply(body)
    return {"python": {"function": "outside:same", "configMapRef": {"name": "code"}}}


def signal_jvm(cluster_job: ClusterJob, signal: str) -> None:
    """Sends a signal to the JVM of the current driver, and to nothing else there."""
    pod = names.driver_pod(NAME, cluster_job.job.attempt)
    container = f"--container={names.DRIVER_CONTAINER}"
    cluster_job.kubectl.run("exec", pod, container, "--", "bash", "-c", JVM.format(signal))


def failed_by(reason: str) -> Callable[[Status], bool]:
    return lambda status: bool(status.get("lastFailure", {}).get("reason") == reason)


def in_phase(phase: str) -> Callable[[Status], bool]:
    return lambda status: bool(status.get("phase", {}).get("name") == phase)


def ready(value: str) -> Callable[[Status], bool]:
    return lambda status: bool(condition_of(status, "Ready").get("status") == value)


def again(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """A pod as it was created, under another name."""
    kept = ("namespace", "labels", "annotations", "ownerReferences")
    metadata = {key: pod["metadata"][key] for key in kept if key in pod["metadata"]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, "spec": pod["spec"]}
    made = copy.deepcopy(made)
    made["spec"].pop("nodeName")
    return made


def refusal(kubectl: Kubectl, *arguments: str, body: dict[str, Any] | None = None) -> str:
    """What the API server says; empty where it accepts."""
    try:
        kubectl.run(*arguments, "--dry-run=server", stdin=json.dumps(body or {}))
    except CommandFailed as failure:
        return failure.stderr
    return ""


OF_AN_IMAGE = {"ErrImagePull", "ImagePullBackOff"}
NOWHERE = [
    ({"image": "localhost:1/kafkaspark/no-such-image:1"}, OF_AN_IMAGE),
    ({"image": IMAGE_OF["sparkapp"], "transform": {"python": {"function": "nowhere:same"}}}, {"InvalidTransform"}),
]
"""Edits that cannot run, and the reasons for which each is refused. The second edit corrects the image."""


def refused_by(reasons: set[str]) -> Callable[[Status], bool]:
    """Whether the present spec is refused for one of the reasons."""
    return lambda status: any(each.get("standing") and each["reason"] in reasons for each in status.get("refused", []))


def test_an_edit_that_is_known_to_fail_replaces_nothing(make_cluster_job: MakeClusterJob) -> None:
    cluster_job = make_cluster_job("o1")
    cluster_job.load(RECORDS)
    cluster_job.apply(parallelism=1, executor={"cores": 1}, restartPolicy={"successor": "BeforeStop"})
    cluster_job.job.wait_ready()
    driver = names.driver_pod(NAME, cluster_job.job.attempt)
    uid = (cluster_job.kubectl.get("pod", driver) or {})["metadata"]["uid"]
    for change, reasons in NOWHERE:
        cluster_job.change(**change)
        status = cluster_job.job.wait("the edit is refused", refused_by(reasons))
        assert ready("True")(status), cluster_job.job.diagnosis()
        assert condition_of(status, "Stalled")["reason"] == "RevisionRefused"
    cluster_job.assert_exactly_once(cluster_job.load(RECORDS))
    left = cluster_job.kubectl.get("pod", driver) or {}
    assert left["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in left["metadata"]
    assert ready("True")(cluster_job.job.status)


def test_a_jvm_that_freezes_in_a_start_meets_a_deadline(make_cluster_job: MakeClusterJob) -> None:
    cluster_job = make_cluster_job("o2")
    records = cluster_job.load(RECORDS)
    cluster_job.apply(transform=code(cluster_job, SLOW))
    cluster_job.job.wait("the driver plans", in_phase("Recovering"))
    signal_jvm(cluster_job, "STOP")
    assert ready("False")(cluster_job.job.status)
    cluster_job.job.wait("the end of the attempt", failed_by("StreamStalled"), seconds=START_SECONDS)
    cluster_job.job.wait_ready(attempt_above=1)
    cluster_job.assert_exactly_once(records)


@pytest.mark.parametrize("engine", ["MicroBatch", "Continuous"])
def test_the_death_of_the_jvm_is_named_with_its_signal(make_cluster_job: MakeClusterJob, engine: str) -> None:
    cluster_job = make_cluster_job("o6")
    cluster_job.load(RECORDS)
    cluster_job.apply(engine=engine)
    cluster_job.job.wait_ready()
    signal_jvm(cluster_job, "KILL")
    status = cluster_job.job.wait_ready(attempt_above=1)
    assert status["lastFailure"]["reason"] == "SparkDied"
    assert "signal 9" in status["lastFailure"]["message"]
    cluster_job.assert_exactly_once(cluster_job.load(RECORDS))


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job that runs, with a function that hangs on demand and a consumer group by name."""
    made = make_cluster_job("outside")
    made.load(RECORDS)
    made.apply(
        transform=code(made, HANGING), parallelism=1, executor={"cores": 1, "resources": None},
        driver={"resources": {"requests": {"cpu": "100m"}}}, source={"groupId": f"{made.namespace}.readers"},
    )  # fmt: skip
    made.job.wait_ready()
    return made


def test_a_function_that_hangs_takes_ready_away(cluster_job: ClusterJob) -> None:
    executors = [pod["metadata"]["name"] for pod in cluster_job.job.pods(names.ROLE_EXECUTOR)]
    for pod in executors:
        cluster_job.kubectl.run("exec", pod, "--", "touch", "/tmp/hang")
    cluster_job.load(RECORDS)
    attempt = cluster_job.job.attempt
    status = cluster_job.job.wait("Ready is taken away", ready("False"), seconds=HANG_SECONDS)
    assert status["reason"] == "CheckpointStalled"
    for pod in executors:
        cluster_job.kubectl.run("exec", pod, "--", "rm", "/tmp/hang")
    cluster_job.job.wait("Ready again", ready("True"))
    assert cluster_job.job.attempt == attempt
    cluster_job.assert_exactly_once(cluster_job.load(RECORDS))


def test_a_second_job_of_a_group_is_refused(cluster_job: ClusterJob) -> None:
    other = cluster_job.resource(source={"groupId": f"{cluster_job.namespace}.readers"})
    other["metadata"]["name"] = "other"
    cluster_job.kubectl.apply(other)

    def refused() -> bool:
        found = cluster_job.kubectl.get(KIND, "other") or {}
        return bool(found.get("status", {}).get("reason") == "GroupIdInUse")

    await_that("the second job is refused", refused, pause=1)
    assert not cluster_job.kubectl.list("pods", f"{names.LABEL_JOB}=other")
    assert ready("True")(cluster_job.job.status)
    cluster_job.kubectl.delete(KIND, "other")


def test_a_container_requests_the_cores_that_it_uses(cluster_job: ClusterJob) -> None:
    executor = cluster_job.job.pods(names.ROLE_EXECUTOR)[0]
    assert executor["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"


def test_the_operators_token_creates_and_changes_nothing_else(cluster_job: ClusterJob) -> None:
    number = cluster_job.job.attempt
    driver = cluster_job.kubectl.get("pod", names.driver_pod(NAME, number))
    assert driver is not None
    pod = again(driver, names.driver_pod(NAME, number + 1))
    create = ("create", "--filename=-", f"--as={OPERATOR}")
    assert refusal(cluster_job.kubectl, *create, body=pod) == ""
    privileged = copy.deepcopy(pod)
    security = {"privileged": True, "allowPrivilegeEscalation": True}
    privileged["spec"]["containers"][0]["securityContext"] |= security
    assert "forbidden" in refusal(cluster_job.kubectl, *create, body=privileged)
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "sidecar"})
    assert "denied request" in refusal(cluster_job.kubectl, *create, body=pod)
    patch = ("patch", KIND, NAME, "--type=merge", "--patch", json.dumps({"spec": {"image": "other:1"}}))
    assert "finalizers and the status" in refusal(cluster_job.kubectl, *patch, f"--as={OPERATOR}")


def access_of(cluster_job: ClusterJob, driver: Mapping[str, Any], folder: Path) -> str:
    """Kubectl's option with which it has the driver's token, as the kubelet gives it to the pod."""
    pod = driver["metadata"]
    bound = (f"--bound-object-name={pod['name']}", f"--bound-object-uid={pod['uid']}", "--bound-object-kind=Pod")
    token = cluster_job.kubectl.run("create", "token", driver["spec"]["serviceAccountName"], *bound)
    access = yaml.safe_load(cluster_job.environment.kubeconfig.read_text(encoding="utf-8"))
    for user in access["users"]:
        user["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(access), encoding="utf-8")
    return f"--kubeconfig={path}"


@pytest.mark.parametrize("escape", ["grace", "gate", "toleration"])
def test_a_driver_creates_bounded_executors_only(cluster_job: ClusterJob, escape: str, tmp_path: Path) -> None:
    driver = cluster_job.kubectl.get("pod", names.driver_pod(NAME, cluster_job.job.attempt))
    assert driver is not None
    create = ("create", "--filename=-", access_of(cluster_job, driver, tmp_path))
    executor = cluster_job.job.pods(names.ROLE_EXECUTOR)[0]
    pod = again(executor, f"{executor['metadata']['name']}9")
    assert refusal(cluster_job.kubectl, *create, body=pod) == ""
    if escape == "grace":
        pod["spec"]["terminationGracePeriodSeconds"] = 300 * 24 * 3600
    elif escape == "gate":
        pod["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    else:
        pod["spec"].setdefault("tolerations", []).append({"operator": "Exists"})
    assert "denied request" in refusal(cluster_job.kubectl, *create, body=pod)


KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "change",
    [
        {"driver": {"env": [{"name": "WORDS", "value": KEY}]}},
        {"sparkConf": {"spark.hadoop.words": KEY}},
        {"driver": {"env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "w"}]}},
    ],
    ids=["environment", "sparkConf", "name"],
)
def test_a_private_key_is_refused_with_the_field_to_use(cluster_job: ClusterJob, change: dict[str, Any]) -> None:
    text = ("patch", KIND, NAME, "--type=merge", "--patch", json.dumps({"spec": change}))
    message = refusal(cluster_job.kubectl, *text)
    assert "Secret" in message or "secret" in message
