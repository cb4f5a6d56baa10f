"""Kubernetes refuses executors: Spark asks on, and what the driver reports is the API server's own text.

A real driver's Spark with its token on a real API server. Nothing here starts its executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model import names
from sparkapp.spark.launch.settings import pods_log
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place
from tests.support.kubernetes.spark_attempt import SparkAttempt

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

USERS_LIMIT = 1
"""More refusals than this ended Spark's application."""
PROGRAM = f"""
import json, sys
from pathlib import Path
from sparkapp.spark.launch.session import create_core_session
from sparkapp.spark.reporting.executor_pods import ExecutorPodsLog

reported = {{}}
log = ExecutorPodsLog(Path({str(pods_log())!r}), lambda **fields: reported.update(fields))
log.start()
context = create_core_session(json.loads(Path(sys.argv[1]).read_text())).sparkContext._jsc.sc()
for line in sys.stdin:
    found = {{"refused": reported.get("executors_refused", ""), "stopped": context.isStopped(), "gave_up": log.gave_up}}
    print(json.dumps(found), flush=True)
"""
ADDS_A_LABEL = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicy",
    "spec": {
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods", "configmaps"],
                }
            ]
        },
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": 'Object{metadata: Object.metadata{labels: {"team": "blue"}}}',
                },
            }
        ],
    },
}


@pytest.fixture
def attempt(
    api: ApiClient, place: Place, start_operator: Callable[..., OperatorProcess], kubeconfig: Path, tmp_path: Path
) -> Iterator[SparkAttempt]:
    start_operator().await_leading()
    job = LiveJob(api, place.namespace)
    job.create(parallelism=2, engine="Continuous", executor={"instances": 2, "cores": 1}, driver={"memory": "512Mi"})
    job.await_driver(1, hold=False)
    made = SparkAttempt(api, job, tmp_path, kubeconfig.parent / "pki" / "ca.crt")
    yield made
    made.close()
    pods_log().unlink(missing_ok=True)


def executors(attempt: SparkAttempt) -> list[dict[str, Any]]:
    selector = f"{names.LABEL_JOB}={attempt.job.name},{names.LABEL_ROLE}={names.ROLE_EXECUTOR}"
    return attempt.api.items(attempt.job.pods_path, selector)


def await_refusal(attempt: SparkAttempt, *parts: str) -> None:
    def refused() -> bool:
        found = attempt.ask("state")
        assert not found["stopped"], attempt.log("driver")[-4000:]
        return all(part in found["refused"] for part in parts)

    await_that(f"a refusal with {parts}", refused)


def test_refused_executors_are_a_state_and_no_failure(attempt: SparkAttempt) -> None:
    api, base = attempt.api, f"/api/v1/namespaces/{attempt.job.namespace}"
    quota = {"metadata": {"name": "one-executor"}, "spec": {"hard": {"pods": "2"}}}
    made = api.call("POST", f"{base}/resourcequotas", quota)
    # Its controller does not run here.
    api.call("PUT", f"{base}/resourcequotas/one-executor/status", {
        **made, "status": {"hard": {"pods": "2"}, "used": {"pods": "1"}},
    })  # fmt: skip
    attempt.start_driver(attempt.settings(**{"spark.executor.maxNumFailures": str(USERS_LIMIT)}), PROGRAM)
    await_refusal(attempt, "exceeded quota: one-executor", "limited: pods=2")
    assert len(executors(attempt)) == 1, "the job has what fits"

    def many() -> bool:
        assert not attempt.ask("state")["stopped"], attempt.log("driver")[-4000:]
        return pods_log().read_text().count("Failed to create executor pod") > 10

    await_that("more refusals than failures are allowed", many)
    assert attempt.log("driver").count("Failed to create executor pod") < 10

    limit = {"type": "Container", "max": {"memory": "1Mi"}}
    api.call("POST", f"{base}/limitranges", {"metadata": {"name": "small"}, "spec": {"limits": [limit]}})
    api.call("DELETE", f"{base}/resourcequotas/one-executor")
    await_refusal(attempt, "maximum memory usage per Container is 1Mi")

    # A policy that changes executors, which the driver's own policy then refuses.
    mutating = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
    name, bindings = attempt.job.namespace, mutating.replace("policies", "policybindings")
    api.call("POST", mutating, {**ADDS_A_LABEL, "metadata": {"name": name}})
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    api.call("POST", bindings, {"metadata": {"name": name}, "spec": {"policyName": name, "matchResources": selector}})

    def in_force() -> bool:
        found = api.call("POST", f"{base}/configmaps?dryRun=All", {"metadata": {"name": "probe"}})
        return bool(found["metadata"].get("labels"))

    try:
        await_that("the policy", in_force)
        api.call("DELETE", f"{base}/limitranges/small")
        await_refusal(
            attempt, "ValidatingAdmissionPolicy", "an executor has the labels and annotations of the operator"
        )
    finally:
        api.call("DELETE", f"{bindings}/{name}")
        api.call("DELETE", f"{mutating}/{name}")
    await_that("the second executor", lambda: len(executors(attempt)) == 2)
    await_that("the end of the refusal", lambda: attempt.ask("state")["refused"] == "")
    state = attempt.ask("state")
    assert (state["stopped"], state["gave_up"]) == (False, "")


def test_executors_that_fail_over_and_over_end_the_attempt_with_their_cause(attempt: SparkAttempt) -> None:
    attempt.start_driver(attempt.settings(**{"spark.executor.maxNumFailures": "3"}), PROGRAM)
    failed: set[str] = set()

    def gave_up() -> bool:
        """Each executor fails as soon as it is there; the test is its kubelet."""
        for pod in executors(attempt):
            uid, path = pod["metadata"]["uid"], f"{attempt.job.pods_path}/{pod['metadata']['name']}/status"
            if uid not in failed:
                failed.add(uid)
                terminated = {"exitCode": 137, "reason": "OOMKilled"}
                status = {"name": "executor", "state": {"terminated": terminated}, "ready": False, "restartCount": 0}
                status |= {"image": "i", "imageID": "i"}
                attempt.api.call("PUT", path, {**pod, "status": {"phase": "Failed", "containerStatuses": [status]}})
        return bool(attempt.ask("state")["gave_up"])

    await_that("the end by failures", gave_up)
    assert attempt.ask("state")["gave_up"] == "Max number of executor failures (3) reached"
    await_that("the end of the application", lambda: attempt.ask("state")["stopped"])
    assert len(failed) > 3
