"""The watch of the driver's own pod continues after any error; a real API server: ``tests/integration/kubeapi``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes import own_pod, pod_activation
from sparkapp.checkpoint.kubernetes.own_pod import OwnPod, PodScale
from sparkapp.checkpoint.kubernetes.pod_activation import PodActivation
from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
from sparkapp.model import names
from sparkapp.model.report import Scale


def pod(uid: str) -> Any:
    """A pod of the driver's name that was activated."""
    return SimpleNamespace(metadata=SimpleNamespace(uid=uid, annotations={names.ANNOTATION_TURN: names.TURN_GIVEN}))


def activation(drained: Callable[[], bool] = lambda: False) -> PodActivation:
    api = SimpleNamespace(list_namespaced_pod=None)
    report = ReportWriter(api, namespace="ns", job="orders", uid="job-uid")
    return PodActivation(OwnPod(api, "ns", "orders-2-driver", "uid"), report=report, attempt=2, drained=drained)


def test_the_activation_of_another_pod_of_the_name_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver of a deleted resource may still run when the next resource has a standby of the same number."""
    asked = threading.Event()
    rounds = iter([["another"], ["another", "uid"]])

    class Watch:
        def stream(self, *_: object, **__: object) -> Iterator[dict[str, Any]]:
            for uid in next(rounds):
                if uid == "uid":
                    asked.wait(10)
                yield {"object": pod(uid)}

    monkeypatch.setattr(own_pod.watch, "Watch", Watch)
    waiting = activation()
    assert not waiting.wait(0.2)
    asked.set()
    assert waiting.wait(10)


@pytest.mark.parametrize(
    "error",
    [
        ApiException(500), urllib3.exceptions.ProtocolError("x"), ValueError("no JSON"), ConnectionResetError(),
        KeyError("object"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_the_activation_is_seen_after_any_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    given = pod("uid")
    rounds = iter([error, None])

    class Watch:
        def stream(self, *_: object, **__: object) -> Iterator[dict[str, Any]]:
            problem = next(rounds)
            if problem is not None:
                raise problem
            yield {"object": given}

    monkeypatch.setattr(own_pod.watch, "Watch", Watch)
    monkeypatch.setattr(own_pod, "_PAUSE", 0.0)
    assert activation().wait(10)


def named_next(monkeypatch: pytest.MonkeyPatch, ended: threading.Event) -> None:
    """The operator says once that the driver is next, and nothing more."""
    annotations = {names.ANNOTATION_TURN: names.TURN_NEXT}

    class Watch:
        def stream(self, *_: object, **__: object) -> Iterator[dict[str, Any]]:
            yield {"object": SimpleNamespace(metadata=SimpleNamespace(uid="uid", annotations=annotations))}
            ended.wait(60)

    monkeypatch.setattr(own_pod.watch, "Watch", Watch)


def test_the_next_driver_begins_when_the_attempt_before_it_has_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, drained = threading.Event(), threading.Event()
    named_next(monkeypatch, ended)
    waiting = activation(drained.is_set)
    assert not waiting.wait(0.3), "it still works"
    drained.set()
    assert waiting.wait(10)
    ended.set()


def test_an_unreadable_document_ends_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    named_next(monkeypatch, ended)
    monkeypatch.setattr(pod_activation, "_PAUSE_AFTER_ERROR", 0.0)
    answers: list[bool | Exception] = [ConnectionResetError(), KeyError("data"), False, True]

    def drained() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert activation(drained).wait(10)
    assert answers == []
    ended.set()


def test_a_standby_driver_does_not_look_at_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is activated by the operator, whatever the attempt before it has written."""
    looked: list[bool] = []
    ended = threading.Event()

    class Watch:
        def stream(self, *_: object, **__: object) -> Iterator[dict[str, Any]]:
            annotations = {names.ANNOTATION_TURN: names.TURN_AWAITED}
            yield {"object": SimpleNamespace(metadata=SimpleNamespace(uid="uid", annotations=annotations))}
            ended.wait(60)

    monkeypatch.setattr(own_pod.watch, "Watch", Watch)
    waiting = activation(lambda: bool(looked.append(True)) or True)
    assert not waiting.wait(0.3)
    assert looked == []
    ended.set()


def test_the_last_scale_that_was_asked_for_counts() -> None:
    scale = PodScale(OwnPod(SimpleNamespace(), "ns", "orders-1-driver", "uid"))
    found = []
    for parallelism, executors in (("", ""), ("4", "2"), ("x", "2"), ("0", "1"), ("2000", "1"), ("1", "1")):
        asked = {names.ANNOTATION_PARALLELISM: parallelism, names.ANNOTATION_EXECUTORS: executors}
        assert not scale._seen(asked), "the watch goes on"
        found.append(scale._latest)
    assert found == [None, Scale(4, 2), Scale(4, 2), Scale(4, 2), Scale(4, 2), Scale(1, 1)]
