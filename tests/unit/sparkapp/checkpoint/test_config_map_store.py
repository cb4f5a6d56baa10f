"""How long a write of the document keeps trying, and how long each of its requests waits."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.config_map import ConfigMapStore
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import CheckpointStoreUnavailable


class Api:
    """An API server that answers each try with an error of its own."""

    def __init__(self) -> None:
        self.timeouts: list[tuple[float, float]] = []

    def patch_namespaced_config_map(self, *_: Any, _request_timeout: tuple[float, float]) -> None:
        self.timeouts.append(_request_timeout)
        raise ApiException(status=503, reason="Service Unavailable")


def test_C8_a_write_ends_with_the_deadline_of_the_transactions_that_it_makes_final() -> None:
    api = Api()
    store = ConfigMapStore(api, namespace="n", job="j")
    began = time.monotonic()
    with pytest.raises(CheckpointStoreUnavailable, match="within 0 s: 503"):
        store.write("{}", expected="1", deadline=Deadline.after(0.5))
    assert time.monotonic() - began < 10, "its own deadline is a minute"
    assert len(api.timeouts) > 1
    assert all(connect <= 0.5 and answer <= 0.5 for connect, answer in api.timeouts)


def test_C8_a_distant_deadline_leaves_the_stores_own() -> None:
    api = Api()
    with pytest.raises(CheckpointStoreUnavailable):
        ConfigMapStore(api, namespace="n", job="j", deadline=0.3).write("", expected="1", deadline=Deadline.after(900))
    assert all(answer <= 0.3 for _, answer in api.timeouts)
