"""The watch for an attempt's activation continues after any error; a real API server: ``kubeapi/test_standby.py``."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes import pod_activation
from sparkapp.checkpoint.kubernetes.pod_activation import PodActivation
from sparkapp.model import names


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

    monkeypatch.setattr(pod_activation.watch, "Watch", Watch)
    monkeypatch.setattr(pod_activation, "_PAUSE", 0.0)
    api = SimpleNamespace(list_namespaced_pod=None)
    assert PodActivation(api, namespace="ns", job="orders", attempt=2, pod="orders-2").wait(10)
