"""A job whose templates set everything: its pods, as a real API server stores and admits them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import Running
from tests.support.kubernetes.pod_templates import EVERYTHING, everything

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
COMPARED = sorted(set(EVERYTHING["spec"]) - {"volumes", "securityContext", "tolerations"})


@pytest.fixture
def job(api: ApiClient, running: Running) -> LiveJob:
    name = EVERYTHING["spec"]["priorityClassName"]
    api.apply(f"{CLASSES}/{name}", {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                                    "metadata": {"name": name}, "value": 1000})  # fmt: skip
    return LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")


def check(pod: dict[str, Any], role: str) -> None:
    """Fails unless the pod has every field of the template, in a list also next to what the API server adds."""
    template = everything(role)
    metadata = template["metadata"]
    assert pod["metadata"]["labels"].items() >= metadata["labels"].items()
    assert pod["metadata"].get("annotations", {}).items() >= metadata["annotations"].items()
    assert {name: pod["spec"].get(name) for name in COMPARED} == {name: EVERYTHING["spec"][name] for name in COMPARED}
    assert pod["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert [each for each in pod["spec"]["tolerations"] if each["key"] == "spot"] == EVERYTHING["spec"]["tolerations"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["model"]["persistentVolumeClaim"]["claimName"] == "model-files"
    assert {"lookup", "keys", "cache", "tmp", "work"} <= set(volumes)
    (container,), (given,) = pod["spec"]["containers"], template["spec"]["containers"]
    assert container["name"] == role
    assert container.get("envFrom") == given.get("envFrom")
    assert all(mount in container["volumeMounts"] for mount in given["volumeMounts"])
    assert given["env"][0] in container["env"]


def test_the_pods_have_what_their_templates_set_and_are_admitted_as_restricted(job: LiveJob) -> None:
    job.create(driver={"podTemplate": everything("driver")}, executor={"podTemplate": everything("executor")})
    driver = job.await_driver(1, hold=False)
    check(driver, "driver")
    assert driver["spec"]["restartPolicy"] == "Never"
    job.run(1)
    name = job.add_executor(1)
    check(job.api.call("GET", f"{job.pods_path}/{name}"), "executor")


def test_a_template_that_would_undo_the_security_is_refused_by_name(job: LiveJob) -> None:
    job.create(executor={"podTemplate": {"spec": {"hostNetwork": True}}})
    job.await_state("Failed")
    message = job.condition("ConfigValid")["message"]
    assert message.startswith("spec.executor.podTemplate.spec.hostNetwork is refused")
    assert job.pods == []
