"""The watch of the driver's own pod continues after any error; a real API server: ``tests/integration/kubeapi``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes import own_pod
from sparkapp.checkpoint.kubernetes.own_pod import OwnPod, PodScale
from sparkapp.checkpoint.kubernetes.pod_activation import PodActivation
from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
from sparkapp.model import names
from sparkapp.model.report import Scale


def pod(uid: str) -> Any:
    """A pod of the driver's name that was activated."""
    return SimpleNamespace(metadata=SimpleNamespace(uid=uid, annotations={names.ANNOTATION_TURN: names.TURN_GIVEN}))


def activation() -> PodActivation:
    api = SimpleNamespace(list_namespaced_pod=None)
    report = ReportWriter(api, namespace="ns", job="orders", uid="job-uid")
    return PodActivation(OwnPod(api, "ns", "orders-2-driver", "uid"), report=report, attempt=2)


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


def test_the_last_scale_that_was_asked_for_counts() -> None:
    scale = PodScale(OwnPod(SimpleNamespace(), "ns", "orders-1-driver", "uid"))
    found = []
    for parallelism, executors in (("", ""), ("4", "2"), ("x", "2"), ("0", "1"), ("2000", "1"), ("1", "1")):
        asked = {names.ANNOTATION_PARALLELISM: parallelism, names.ANNOTATION_EXECUTORS: executors}
        assert not scale._seen(asked), "the watch goes on"
        found.append(scale._latest)
    assert found == [None, Scale(4, 2), Scale(4, 2), Scale(4, 2), Scale(4, 2), Scale(1, 1)]
