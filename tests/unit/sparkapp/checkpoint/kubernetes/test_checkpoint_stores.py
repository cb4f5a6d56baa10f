"""How long a write of the document keeps trying, and how long each of its requests waits."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
from sparkapp.clients.deadline import Deadline
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import Pin, pin_annotation
from sparkapp.model.errors import CheckpointConflict, CheckpointStoreUnavailable, CheckpointUnusable

UID = "uid-of-the-job"


class Api:
    """An API server that answers each try with an error of its own."""

    def __init__(self) -> None:
        self.timeouts: list[tuple[float, float]] = []

    def patch_namespaced_config_map(self, *_: Any, _request_timeout: tuple[float, float]) -> None:
        self.timeouts.append(_request_timeout)
        raise ApiException(status=503, reason="Service Unavailable")


def test_C8_a_write_ends_with_the_deadline_of_the_transactions_that_it_makes_final() -> None:
    api = Api()
    store = ConfigMapStore(api, namespace="n", job="j", uid=UID)
    began = time.monotonic()
    with pytest.raises(CheckpointStoreUnavailable, match="within 0 s: 503"):
        store.write("{}", expected="1", deadline=Deadline.after(0.5))
    assert time.monotonic() - began < 10, "its own deadline is a minute"
    assert len(api.timeouts) > 1
    assert all(connect <= 0.5 and answer <= 0.5 for connect, answer in api.timeouts)


def test_C8_a_distant_deadline_leaves_the_stores_own() -> None:
    api = Api()
    with pytest.raises(CheckpointStoreUnavailable):
        ConfigMapStore(api, namespace="n", job="j", uid=UID, deadline=0.3).write(
            "", expected="1", deadline=Deadline.after(900)
        )
    assert all(answer <= 0.3 for _, answer in api.timeouts)


class Kubernetes:
    """One ConfigMap with a version; a test may change it when it is asked for."""

    def __init__(self, text: str | None) -> None:
        self.text, self.version = text, 1
        self.before_patch: list[str | None] = []
        """What somebody else leaves as the document before each write: the same text is a label."""

    def body(self) -> Any:
        data = {} if self.text is None else {names.CHECKPOINT_KEY: self.text}
        metadata = SimpleNamespace(
            uid="uid", resource_version=str(self.version), owner_references=None,
            annotations={names.ANNOTATION_JOB_UID: UID},
        )  # fmt: skip
        return SimpleNamespace(data=data, binary_data=None, metadata=metadata)

    def read_namespaced_config_map(self, *_: Any, **__: Any) -> Any:
        return self.body()

    def patch_namespaced_config_map(self, _: str, __: str, patch: Any, **___: Any) -> Any:
        if self.before_patch:
            self.text, self.version = self.before_patch.pop(0), self.version + 1
        if patch["metadata"]["resourceVersion"] != str(self.version):
            raise ApiException(status=409, reason="Conflict")
        self.text, self.version = patch["data"][names.CHECKPOINT_KEY], self.version + 1
        return self.body()


@pytest.mark.parametrize("text", [None, "one"])
def test_C10_a_label_of_somebodys_is_no_other_writer(text: str | None) -> None:
    kubernetes = Kubernetes(text)
    store = ConfigMapStore(kubernetes, namespace="n", job="j", uid=UID)
    version = store.read().version
    kubernetes.before_patch = [text, text]
    version = store.write("two", expected=version)
    assert (kubernetes.text, version) == ("two", str(kubernetes.version))
    kubernetes.before_patch = ["two"]
    assert store.write("three", expected=version) == str(kubernetes.version)
    assert kubernetes.text == "three"


def test_C10_a_document_that_was_changed_under_a_label_is_a_conflict() -> None:
    kubernetes = Kubernetes("one")
    store = ConfigMapStore(kubernetes, namespace="n", job="j", uid=UID)
    version = store.read().version
    kubernetes.before_patch = ["one", "of a newer attempt"]
    with pytest.raises(CheckpointConflict):
        store.write("two", expected=version)
    assert store.read().text == kubernetes.text == "of a newer attempt"
    with pytest.raises(CheckpointConflict):
        store.write("two", expected=version)
    assert kubernetes.text == "of a newer attempt", "what another thread has read there is nobody's permission"


class Annotated:
    """The ConfigMap of retained checkpoints with these annotations."""

    def __init__(self, annotations: dict[str, str] | None, *, busy: int = 0, status: int = 429) -> None:
        self.annotations, self.status = annotations, status
        self.busy = busy
        """Changes that are not answered."""
        self.data: dict[str, str | None] = {}

    def read_namespaced_config_map(self, *_: Any, **__: Any) -> Any:
        metadata = SimpleNamespace(uid="uid", owner_references=None, annotations=self.annotations)
        return SimpleNamespace(data={}, metadata=metadata)

    def patch_namespaced_config_map(self, _: str, __: str, patch: Any, **___: Any) -> Any:
        self.busy -= 1
        if self.busy >= 0:
            raise ApiException(status=self.status, reason="Too Many Requests")
        self.data.update(patch["data"])


def test_a_change_of_retained_checkpoints_outlives_a_busy_api_server() -> None:
    kubernetes = Annotated(None, busy=2)
    ConfigMapRetainedStore(kubernetes, namespace="n", job="j", uid=UID).change({"checkpoint-7.json": "{}"}, ["old"])
    assert kubernetes.data == {"checkpoint-7.json": "{}", "old": None}


def test_a_change_of_retained_checkpoints_ends_with_its_deadline() -> None:
    store = ConfigMapRetainedStore(Annotated(None, busy=1000), namespace="n", job="j", uid=UID, deadline=0.3)
    with pytest.raises(CheckpointStoreUnavailable, match="within 0 s: 429"):
        store.change({"checkpoint-7.json": "{}"}, [])


def test_a_change_that_others_keep_from_its_place_is_no_sign_of_another_attempt() -> None:
    store = ConfigMapRetainedStore(Annotated(None, busy=1, status=409), namespace="n", job="j", uid=UID)
    with pytest.raises(CheckpointStoreUnavailable, match="too many others"):
        store.change({"checkpoint-7.json": "{}"}, [])


def pinned(annotations: dict[str, str] | None) -> set[int]:
    return set(ConfigMapRetainedStore(Annotated(annotations), namespace="n", job="j", uid=UID).pinned())


def test_the_driver_reads_the_pins_of_snapshots() -> None:
    pins = {**pin_annotation("uid-1", Pin(47, "before-v2.1")), **pin_annotation("uid-2", Pin(9, "a"))}
    assert pinned({**pins, "kafkaspark.io/job-uid": UID}) == {47, 9}
    assert pinned(None) == set()


@pytest.mark.parametrize("text", ["", "x", "0.a", "-1.a", "47", "1" * 20 + ".a"])
def test_a_pin_that_cannot_be_read_keeps_everything(text: str) -> None:
    with pytest.raises(CheckpointUnusable, match=r"annotation pin.kafkaspark.io/uid-1 names no checkpoint") as caught:
        pinned({**pin_annotation("uid-2", Pin(9, "a")), "pin.kafkaspark.io/uid-1": text})
    assert "pin.kafkaspark.io/uid-1-" in caught.value.remedy
