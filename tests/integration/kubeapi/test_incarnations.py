"""A resource that is deleted and created again at once: the operator's process and the driver's own client.

The client has the rights of the job's driver, on a real API server with Kubernetes' garbage collector.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
from sparkapp.checkpoint.kubernetes.incarnation import prove_incarnation
from sparkapp.checkpoint.kubernetes.own_pod import OwnPod
from sparkapp.checkpoint.kubernetes.pod_activation import PodActivation
from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
from sparkapp.model import names
from sparkapp.model.errors import CheckpointError, IncarnationMismatch
from sparkapp.model.job.codec import decode_job
from sparkapp.model.job.spec import Job
from sparkapp.model.report import termination_of
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import Running


@pytest.fixture
def job(api: ApiClient, running: Running) -> Iterator[LiveJob]:
    made = LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")
    yield made
    for pod in made.pods:
        made.api.merge(f"{made.pods_path}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})


@pytest.fixture
def driver(job: LiveJob, kubeconfig: Path) -> Any:
    """The API as the job's driver has it."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    client = kubernetes.client.ApiClient(configuration)
    client.set_default_header("Impersonate-User", f"system:serviceaccount:{job.namespace}:{job.name}-driver")
    return kubernetes.client.CoreV1Api(client)


def described(job: LiveJob, attempt: int = 1) -> Job:
    """What the attempt's driver finds in its mounted file."""
    return decode_job(job.record(attempt)["data"][names.JOB_KEY])


def recreate(job: LiveJob, **spec: Any) -> None:
    job.api.call("DELETE", job.path)
    await_that("the resource is gone", lambda: job.api.get(job.path) is None)
    job.create(**spec)


def data_of(job: LiveJob, name: str) -> dict[str, str]:
    return dict(job.api.call("GET", f"{job.config_maps_path}/{name}").get("data") or {})


def await_next_incarnation(job: LiveJob, before: Job) -> Job:
    """The old driver's kubelet is done; the next resource has ConfigMaps and a driver of its own."""
    job.release(1)
    await_that("another description", lambda: job.api.get(record_path(job)) is not None)
    job.await_driver(1)
    found = described(job)
    assert found.uid == job.uid() != before.uid
    return found


def record_path(job: LiveJob) -> str:
    return f"{job.config_maps_path}/{names.attempt_config_map(job.name, job.uid(), 1)}"


def test_the_next_resource_has_a_description_of_another_name(job: LiveJob, driver: Any) -> None:
    job.create()
    job.await_driver(1)
    before, name = described(job), job.record(1)["metadata"]["name"]
    await_that("the driver's rights", lambda: prove_incarnation(driver, before, pod_uid=""))
    recreate(job, sink={"topic": "another"})
    after = await_next_incarnation(job, before)
    assert after.spec.sink.topic == "another"
    assert job.record(1)["metadata"]["name"] != name
    pod = job.api.call("GET", f"{job.pods_path}/{names.driver_pod(job.name, 1)}")
    own = prove_incarnation(driver, after, pod_uid=pod["metadata"]["uid"])
    assert own.uid == pod["metadata"]["uid"]


def test_a_driver_with_the_description_of_a_deleted_resource_writes_nothing(job: LiveJob, driver: Any) -> None:
    job.create(restartPolicy={"backoff": {"initialSeconds": 1}})
    job.await_driver(1)
    before = described(job)
    recreate(job)
    await_next_incarnation(job, before)
    pod = job.api.call("GET", f"{job.pods_path}/{names.driver_pod(job.name, 1)}")
    with pytest.raises(IncarnationMismatch, match=before.uid) as error:
        prove_incarnation(driver, before, pod_uid=pod["metadata"]["uid"])
    for part in (names.state_config_map, names.report_config_map, names.checkpoints_config_map):
        assert data_of(job, part(job.name)) == {}

    job.ends(1, termination_of(error.value, job=before))
    assert job.await_state("Restarting", reason="IncarnationMismatch")["restarts"]["total"] == 1
    job.await_deletion(1)
    job.release(1)
    job.run(2)
    assert described(job, 2).uid == job.uid()


def test_what_a_driver_of_a_deleted_resource_holds_does_not_reach_the_next(job: LiveJob, driver: Any) -> None:
    """A process that stood still: it has read before, and writes behind the recreation."""
    job.create()
    pod = job.await_driver(1)
    before = described(job)
    place = {"namespace": job.namespace, "job": job.name, "uid": before.uid}
    await_that("the driver's rights", lambda: prove_incarnation(driver, before, pod_uid=""))
    state, retained = ConfigMapStore(driver, **place, deadline=2), ConfigMapRetainedStore(driver, **place)
    report = ReportWriter(driver, **place)
    read = state.read()
    assert read.text is None
    report.write("{}")
    retained.change({"checkpoint-1": "{}"}, [])
    activation = PodActivation(
        OwnPod(driver, job.namespace, pod["metadata"]["name"], pod["metadata"]["uid"]),
        report=report,
        attempt=1,
        drained=lambda: False,
    )

    recreate(job)
    after = await_next_incarnation(job, before)
    given = {"metadata": {"annotations": {names.ANNOTATION_TURN: names.TURN_GIVEN}}}
    job.api.merge(f"{job.pods_path}/{pod['metadata']['name']}", given)
    with pytest.raises(CheckpointError):
        state.write("of the deleted resource", expected=read.version)
    report.write("of the deleted resource")
    report.announce(1)
    with pytest.raises(IncarnationMismatch):
        retained.change({"checkpoint-2": "of the deleted resource"}, [])
    for part in (names.state_config_map, names.report_config_map, names.checkpoints_config_map):
        assert data_of(job, part(job.name)) == {}
    assert not activation.wait(1)

    own = ReportWriter(driver, namespace=job.namespace, job=job.name, uid=after.uid)
    own.write("of the next")
    path = f"{job.config_maps_path}/{names.report_config_map(job.name)}"
    job.api.call("DELETE", path)
    await_that("the operator creates the report again", lambda: job.api.get(path))
    own.write("of the next, again")
    assert data_of(job, names.report_config_map(job.name)) == {names.REPORT_KEY: "of the next, again"}
