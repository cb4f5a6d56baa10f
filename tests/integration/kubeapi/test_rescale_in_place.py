"""A rescale in place: the operator's process and the driver's own client with its rights, on a real API server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import kubernetes
import pytest

from sparkapp.checkpoint.kubernetes.own_pod import OwnPod, PodScale
from sparkapp.model import names
from sparkapp.model.report import Scale
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import Running


@pytest.fixture
def job(api: ApiClient, running: Running) -> LiveJob:
    return LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")


def scale_of(kubeconfig: Path, job: LiveJob) -> PodScale:
    """The driver's own view, with the identity and the rights of the job's driver."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    client = kubernetes.client.ApiClient(configuration)
    client.set_default_header("Impersonate-User", f"system:serviceaccount:{job.namespace}:{job.name}-driver")
    api = kubernetes.client.CoreV1Api(client)
    name = names.driver_pod(job.name, 1)
    uid = job.api.call("GET", f"{job.pods_path}/{name}")["metadata"]["uid"]
    return PodScale(OwnPod(api, job.namespace, name, uid))


def test_scale_reaches_the_running_driver_and_its_report_ends_it(job: LiveJob, kubeconfig: Path) -> None:
    job.create(engine="Continuous")
    job.run(1)
    job.report(1, checkpoint_id=10, engine="Continuous", parallelism=2, rescales=True)
    scale = scale_of(kubeconfig, job)
    assert scale() is None
    for wanted, before in ((4, 2), (1, 4)):
        job.api.merge(f"{job.path}/scale", {"spec": {"replicas": wanted}})
        job.await_state("Rescaling", reason="RescalingInPlace")
        await_that("the annotations", partial(asked, scale, Scale(wanted, wanted)), seconds=30)
        assert job.api.call("GET", f"{job.path}/scale")["status"]["replicas"] == before
        job.report(1, checkpoint_id=12, engine="Continuous", parallelism=wanted, rescales=True, rescaling=wanted)
        job.await_state("Running")
        status = job.api.call("GET", f"{job.path}/scale")["status"]
        assert (status["replicas"], "kafkaspark.io/attempt=1" in status["selector"]) == (wanted, True)
        assert job.body["metadata"]["generation"] == job.status["observedGeneration"]
        assert job.condition("Ready")["status"] == "True"
    assert job.status["attempt"]["id"] == 1
    assert [reason for reason, _ in job.events] == ["Submitted", *2 * ("RescaleStarted", "Rescaled")]
    job.release(1)


def asked(found: Callable[[], Scale | None], wanted: Scale) -> bool:
    return found() == wanted
