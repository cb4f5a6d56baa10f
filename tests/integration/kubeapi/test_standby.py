"""A standby next to the running attempt: the operator's process and the driver's own client, on a real API server."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

import kubernetes
import pytest

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.client import KubeCluster
from kafkasparkjob_operator.kubernetes.port import ObjectConflict
from sparkapp.checkpoint.claim import has_drained
from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapStore
from sparkapp.checkpoint.kubernetes.own_pod import OwnPod
from sparkapp.checkpoint.kubernetes.pod_activation import PodActivation
from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
from sparkapp.model import names
from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_fixture import DRAINED
from tests.support.kubernetes.operator_process import Running


@pytest.fixture
def job(api: ApiClient, running: Running) -> LiveJob:
    return LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")


def turn_of(kubeconfig: Path, job: LiveJob, attempt: int) -> PodActivation:
    """The successor's own view, with the identity and the rights of the job's driver."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    client = kubernetes.client.ApiClient(configuration)
    client.set_default_header("Impersonate-User", f"system:serviceaccount:{job.namespace}:{job.name}-driver")
    api = kubernetes.client.CoreV1Api(client)
    name = names.driver_pod(job.name, attempt)
    pod = OwnPod(api, job.namespace, name, job.api.call("GET", f"{job.pods_path}/{name}")["metadata"]["uid"])
    report = ReportWriter(api, namespace=job.namespace, job=job.name, uid=job.uid())
    store = ConfigMapStore(api, namespace=job.namespace, job=job.name, uid=job.uid())
    drained = partial(has_drained, store, job_uid=job.uid(), attempt=attempt)
    return PodActivation(pod, report=report, attempt=attempt, drained=drained)


def test_a_rescale_goes_to_the_successor(job: LiveJob, kubeconfig: Path) -> None:
    job.create(restartPolicy={"successor": "BeforeStop"})
    job.run(1)
    job.api.merge(f"{job.path}/scale", {"spec": {"replicas": 3}})
    job.await_driver(2)
    job.await_state("Rescaling", reason="PreparingSuccessor")
    turn = turn_of(kubeconfig, job, 2)
    turn.announce()
    job.await_deletion(1)
    job.checkpoint(1, 11, drained=True)
    job.ends(1, DRAINED, code=0, reason="Completed")
    assert not turn.wait(0)
    job.release(1)
    assert turn.wait(60), "the successor does not see that it has its turn"
    job.run(2, checkpoint=12, hold=False)
    assert job.api.call("GET", f"{job.path}/scale")["status"]["replicas"] == 3
    assert [reason for reason, _ in job.events] == [
        "Submitted", "SuccessorStarted", "RescaleStarted", "TurnGiven", "Rescaled",
    ]  # fmt: skip
    job.release(2)


def test_the_standby_is_the_next_attempt(job: LiveJob, kubeconfig: Path) -> None:
    job.create(restartPolicy={"successor": "Standby", "backoff": {"initialSeconds": 0}})
    job.run(1)
    job.await_driver(2)
    turn = turn_of(kubeconfig, job, 2)
    turn.announce()
    job.ends(1, None, code=137)
    job.await_deletion(1)
    assert not turn.wait(0)
    job.release(1)
    assert turn.wait(60), "the standby does not see that it has its turn"
    job.run(2, checkpoint=12, hold=False)
    assert job.status["restarts"]["total"] == 1
    job.await_driver(3)
    for attempt in (2, 3):
        job.release(attempt)


async def test_that_very_pod_is_activated(job: LiveJob, kubeconfig: Path) -> None:
    job.create()
    pod = job.await_driver(1, hold=False)
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    cluster = KubeCluster(configuration, connections=1, observe=lambda *_: None)
    key = JobKey(job.namespace, job.name)
    name, given = pod["metadata"]["name"], {names.ANNOTATION_TURN: names.TURN_GIVEN}
    try:
        with pytest.raises(ObjectConflict):
            await cluster.annotate_pod(key, name, given, uid=str(uuid.uuid4()))
        assert await cluster.annotate_pod(key, name, given, uid=pod["metadata"]["uid"])
        assert not await cluster.annotate_pod(key, "nobody", given, uid=pod["metadata"]["uid"])
    finally:
        cluster.close()
