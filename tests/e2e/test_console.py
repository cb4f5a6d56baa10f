"""The chart's console has no rights of its own: it shows what the token of each request may read."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml

from clusterjob import installation
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.cluster_job import NAME, ClusterJob


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job, and the chart's console in its namespace."""
    cluster_job = make_cluster_job("console")
    cluster_job.load(100)
    cluster_job.apply()
    repository, _, tag = installation.IMAGE_OF["operator"].rpartition(":")
    values = {"image.repository": repository, "image.tag": tag, "console.enabled": "true"}
    command = [cluster_job.environment.helm, "template", "console", str(installation.chart())]
    command += [f"--namespace={cluster_job.namespace}", "--show-only=templates/console.yaml"]
    command += [f"--set={name}={value}" for name, value in values.items()]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cluster_job.kubectl.apply(*(each for each in yaml.safe_load_all(rendered) if each))
    cluster_job.job.wait_ready()
    return cluster_job


def token_of(cluster_job: ClusterJob, name: str, *, resources: list[str]) -> str:
    """The token of a new service account that may read some resources of the namespace."""
    rule = {"apiGroups": ["*"], "resources": resources, "verbs": ["get", "list"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": [rule]}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": cluster_job.namespace}],
    }  # fmt: skip
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    cluster_job.kubectl.apply(account, *([role, binding] if resources else []))
    return cluster_job.kubectl.run("create", "token", name).strip()


def ask(cluster_job: ClusterJob, path: str, token: str = "") -> tuple[int, Any]:
    (pod,) = cluster_job.kubectl.list("pods", "app.kubernetes.io/name=kafkaspark-console")
    request = urllib.request.Request(f"http://{pod['status']['podIP']}:8899{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return int(response.status), json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_it_shows_what_the_token_may_read(cluster_job: ClusterJob) -> None:
    jobs = f"/api/jobs?namespace={cluster_job.namespace}"
    reader = token_of(cluster_job, "reader", resources=[names.PLURAL, "pods", "pods/proxy", "events"])
    await_that("the console answers", lambda: ask(cluster_job, jobs, reader)[0] == 200, pause=1)
    ((job,),) = [ask(cluster_job, jobs, reader)[1]["jobs"]]
    assert (job["name"], job["ready"]) == (NAME, "True")
    status, found = ask(cluster_job, f"/api/jobs/{cluster_job.namespace}/{NAME}", reader)
    assert status == 200
    assert any(pod["metadata"]["name"] == names.driver_pod(NAME, 1) for pod in found["pods"])
    partitions = ask(cluster_job, f"/api/jobs/{cluster_job.namespace}/{NAME}/lag", reader)[1]
    assert {each["topic"] for each in partitions} <= {cluster_job.source}


def test_it_shows_nothing_to_others(cluster_job: ClusterJob) -> None:
    jobs = f"/api/jobs?namespace={cluster_job.namespace}"
    stranger = token_of(cluster_job, "stranger", resources=[])
    for token, said in (("", "no bearer token"), ("forged", "Unauthorized"), (stranger, "forbidden")):
        status, found = ask(cluster_job, jobs, token)
        assert status == 502
        assert said in found["message"]
        assert found["remedy"]
