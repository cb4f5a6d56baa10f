"""A driver writes nothing where its pod, the state or the report is of another incarnation of the resource.

The real API server: ``tests/integration/kubeapi/test_incarnations.py``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.config_maps import attempt_config_map
from kafkasparkjob_operator.resources.revisions import modules_config_map, modules_of
from kafkasparkjob_operator.workload import desired_from_resource
from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
from sparkapp.checkpoint.kubernetes.incarnation import prove_incarnation, prove_modules
from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
from sparkapp.model import names
from sparkapp.model.errors import CheckpointForeign, CheckpointRefused, IncarnationMismatch
from tests.support.kubernetes.operator_fixture import job_body
from tests.support.kubernetes.state_fixture import job

OWN, OTHER = "uid-of-this-resource", "uid-of-the-deleted-resource"
POD = "uid-of-this-pod"
JOB = job(OWN, attempt=1, namespace="team")


def metadata(uid: str, owner: str, **annotations: str) -> Any:
    owners = [SimpleNamespace(kind=names.KIND, uid=owner)] if owner else None
    return SimpleNamespace(uid=uid, resource_version="1", owner_references=owners, annotations=annotations or None)


class Kubernetes:
    """The driver's pod and the job's ConfigMaps; it refuses a patch for another UID as the API server does."""

    def __init__(self, *, pod: str = POD, pod_owner: str = OWN, **owners: str) -> None:
        self.pod: Any = SimpleNamespace(metadata=metadata(pod, pod_owner))
        self.owners = {"state": OWN, "report": OWN, "checkpoints": OWN, **owners}
        self.uids = {part: f"uid-of-{part}" for part in self.owners}
        self.data: dict[str, dict[str, str]] = {part: {} for part in self.owners}
        self.made_for = OWN

    def read_namespaced_pod(self, name: str, namespace: str, **_: Any) -> Any:
        if self.pod is None or (name, namespace) != ("orders-1-driver", "team"):
            raise ApiException(status=404, reason="Not Found")
        return self.pod

    def read_namespaced_config_map(self, name: str, _: str, **__: Any) -> Any:
        part = name.removeprefix("orders-")
        if self.owners[part] == "missing":
            raise ApiException(status=404, reason="Not Found")
        meta = metadata(self.uids[part], self.owners[part], **{names.ANNOTATION_JOB_UID: self.made_for})
        return SimpleNamespace(metadata=meta, data=self.data[part], binary_data=None)

    def patch_namespaced_config_map(self, name: str, _: str, body: Any, **__: Any) -> Any:
        part = name.removeprefix("orders-")
        if body["metadata"].get("uid", self.uids[part]) != self.uids[part]:
            raise ApiException(status=422, reason="metadata.uid: field is immutable")
        self.data[part] |= body["data"]
        return self.read_namespaced_config_map(name, "")


def test_what_belongs_together_is_proven() -> None:
    for uid in (POD, ""):
        pod = prove_incarnation(Kubernetes(), JOB, pod_uid=uid)
        assert (pod.namespace, pod.name, pod.uid) == ("team", "orders-1-driver", POD)


@pytest.mark.parametrize(
    ("kubernetes", "what"),
    [
        (Kubernetes(pod_owner=OTHER), "pod orders-1-driver belongs to that with UID uid-of-the-deleted-resource"),
        (Kubernetes(pod_owner=""), "pod orders-1-driver belongs to none"),
        (Kubernetes(pod="uid-of-another-pod"), "this driver runs in the pod with UID uid-of-this-pod"),
        (Kubernetes(state=OTHER), "ConfigMap orders-state belongs to the KafkaSparkJob with UID uid-of-the-deleted"),
        (Kubernetes(report=OTHER), "ConfigMap orders-report belongs to the KafkaSparkJob with UID uid-of-the-deleted"),
        (Kubernetes(checkpoints=OTHER), "ConfigMap orders-checkpoints belongs to the KafkaSparkJob with UID"),
    ],
    ids=["pod of another", "pod of nobody", "another pod", "state", "report", "checkpoints"],
)  # fmt: skip
def test_the_first_part_of_another_incarnation_ends_the_driver(kubernetes: Kubernetes, what: str) -> None:
    with pytest.raises(IncarnationMismatch) as error:
        prove_incarnation(kubernetes, JOB, pod_uid=POD)
    assert what in error.value.message
    assert not error.value.fatal, "the next attempt has objects of its own"
    assert kubernetes.data == {"state": {}, "report": {}, "checkpoints": {}}


def test_a_driver_whose_pod_is_gone_ends() -> None:
    kubernetes = Kubernetes()
    kubernetes.pod = None
    with pytest.raises(IncarnationMismatch, match=r"attempt 1 .* whose pod orders-1-driver does not exist"):
        prove_incarnation(kubernetes, JOB, pod_uid=POD)


def test_what_is_missing_is_not_the_proofs_error() -> None:
    """The operator creates report and checkpoints again, and recovery refuses a missing state."""
    prove_incarnation(Kubernetes(state="missing", report="missing", checkpoints="missing"), JOB, pod_uid=POD)


def test_a_refused_look_at_the_pod_is_no_mismatch() -> None:
    kubernetes = Kubernetes()

    def refuse(*_: Any, **__: Any) -> None:
        raise ApiException(status=403, reason="Forbidden")

    kubernetes.read_namespaced_pod = refuse  # type: ignore[method-assign]
    with pytest.raises(CheckpointRefused, match="pod orders-1-driver: the API server answered 403"):
        prove_incarnation(kubernetes, JOB, pod_uid=POD)


Recreate = Callable[[Kubernetes, str], None]


def recreate(kubernetes: Kubernetes, owner: str) -> None:
    """Every ConfigMap is another object now, for the resource."""
    kubernetes.owners = dict.fromkeys(kubernetes.owners, owner)
    kubernetes.uids = {part: f"another-{uid}" for part, uid in kubernetes.uids.items()}
    kubernetes.data = {part: {} for part in kubernetes.data}
    kubernetes.made_for = owner


def test_a_report_reaches_the_own_resources_config_map_only() -> None:
    kubernetes = Kubernetes()
    report = ReportWriter(kubernetes, namespace="team", job="orders", uid=OWN)
    report.write("one")
    recreate(kubernetes, OWN)
    report.write("two")
    assert kubernetes.data["report"] == {names.REPORT_KEY: "two"}, "the operator has created a lost report again"
    recreate(kubernetes, OTHER)
    report.write("three")
    report.announce(2)
    assert kubernetes.data["report"] == {}


def test_a_checkpoint_is_retained_for_the_own_resource_only() -> None:
    kubernetes = Kubernetes()
    store = ConfigMapRetainedStore(kubernetes, namespace="team", job="orders", uid=OWN)
    store.change({"1": "one"}, [])
    recreate(kubernetes, OTHER)
    with pytest.raises(IncarnationMismatch):
        store.change({"2": "two"}, [])
    with pytest.raises(IncarnationMismatch):
        store.read()
    assert kubernetes.data["checkpoints"] == {}


def test_the_state_of_another_resource_is_not_read() -> None:
    store = ConfigMapStore(Kubernetes(state=OTHER), namespace="team", job="orders", uid=OWN)
    with pytest.raises(IncarnationMismatch):
        store.read()


def test_a_state_that_no_resource_owns_has_to_be_made_for_this_one() -> None:
    kubernetes = Kubernetes(state="")
    store = ConfigMapStore(kubernetes, namespace="team", job="orders", uid=OWN)
    assert store.read().text is None
    kubernetes.made_for = OTHER
    with pytest.raises(CheckpointForeign, match="belongs to another job"):
        store.read()


def mounted_at(folder: Path, files: dict[str, bytes]) -> Path:
    """As a kubelet mounts a ConfigMap: links into a folder that a change of the ConfigMap replaces."""
    folder.mkdir()
    content = folder / "..2026_11_28"
    content.mkdir()
    (folder / "..data").symlink_to(content.name)
    for name, body in files.items():
        (content / name).write_bytes(body)
        (folder / name).symlink_to(f"..data/{name}")
    return folder


def test_modules_are_those_that_the_operator_found(tmp_path: Path) -> None:
    found = {
        "metadata": {"name": "code"},
        "data": {"a.py": "é = 1", "b.py": ""},
        "binaryData": {"c.so": base64.b64encode(b"\xff\x00").decode()},
    }
    described = tmp_path / "job"
    described.mkdir()
    desired = desired_from_resource(job_body()["spec"], namespace="team", name="orders")
    identity = JobIdentity("team", "orders", OWN)
    modules = modules_of(modules_config_map(identity, found), source="code")
    body = attempt_config_map(identity, desired, attempt=1, generation=1, resource_spec={}, modules=modules)
    (described / names.MODULES_KEY).write_text(body["data"][names.MODULES_KEY], encoding="utf-8")
    same = {"a.py": "é = 1".encode(), "b.py": b"", "c.so": b"\xff\x00"}
    prove_modules(described, mounted_at(tmp_path / "same", same))
    others = [same | {"a.py": b"of the deleted ConfigMap"}, {**same, "d.py": b""}, {"b.py": b"", "c.so": b"\xff\x00"}]
    for number, files in enumerate(others):
        with pytest.raises(IncarnationMismatch, match="are not those that the ConfigMap had"):
            prove_modules(described, mounted_at(tmp_path / f"other-{number}", files))


def test_modules_of_an_image_or_of_an_earlier_operator_are_not_compared(tmp_path: Path) -> None:
    prove_modules(tmp_path, tmp_path / "nothing")
