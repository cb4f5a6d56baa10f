"""The watch of the driver's own pod continues after any error; a real API server: ``tests/integration/kubeapi``."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes import own_pod
from sparkapp.checkpoint.kubernetes.own_pod import PodScale
from sparkapp.checkpoint.kubernetes.pod_activation import PodActivation
from sparkapp.model import names
from sparkapp.model.report import Scale


@pytest.mark.parametrize(
    "error",
    [
        ApiException(500), urllib3.exceptions.ProtocolError("x"), ValueError("no JSON"), ConnectionResetError(),
        KeyError("object"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_the_activation_is_seen_after_any_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    given = SimpleNamespace(metadata=SimpleNamespace(annotations={names.ANNOTATION_TURN: names.TURN_GIVEN}))
    rounds = iter([error, None])

    class Watch:
        def stream(self, *_: object, **__: object) -> Iterator[dict[str, Any]]:
            problem = next(rounds)
            if problem is not None:
                raise problem
            yield {"object": given}

    monkeypatch.setattr(own_pod.watch, "Watch", Watch)
    monkeypatch.setattr(own_pod, "_PAUSE", 0.0)
    api = SimpleNamespace(list_namespaced_pod=None)
    assert PodActivation(api, namespace="ns", job="orders", attempt=2, pod="orders-2").wait(10)


def test_the_last_scale_that_was_asked_for_counts() -> None:
    scale = PodScale(SimpleNamespace(), namespace="ns", pod="orders-1-driver")
    found = []
    for parallelism, executors in (("", ""), ("4", "2"), ("x", "2"), ("0", "1"), ("2000", "1"), ("1", "1")):
        asked = {names.ANNOTATION_PARALLELISM: parallelism, names.ANNOTATION_EXECUTORS: executors}
        assert not scale._seen(asked), "the watch goes on"
        found.append(scale._latest)
    assert found == [None, Scale(4, 2), Scale(4, 2), Scale(4, 2), Scale(4, 2), Scale(1, 1)]
