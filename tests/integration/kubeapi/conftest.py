"""A real API server for these tests, and an operator that runs outside of it as a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.api_client import ApiClient
from tests.support.api_server import api_server, programs
from tests.support.operator_process import OperatorProcess


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's kubeconfig of an API server that ends with the tests."""
    folder = tmp_path_factory.mktemp("kubernetes")
    bin_folder = programs(folder / "bin")
    if bin_folder is None:
        if os.environ.get("CI"):
            pytest.fail("the API server's program is missing: make cluster-up builds it")
        pytest.skip("make cluster-up builds the API server's program")
    with api_server(folder, bin_folder) as made:
        yield made


@pytest.fixture(scope="session")
def api(kubeconfig: Path) -> ApiClient:
    """The API server, with the resource's definition installed."""
    client = ApiClient(kubeconfig)
    client.install_definition()
    return client


@pytest.fixture
def namespace(api: ApiClient, unique: str) -> Iterator[str]:
    """A namespace of this test's own."""
    name = f"t-{unique.rpartition('.')[2]}"
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def start_operator(kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """``start_operator(**settings)`` runs one more operator for this test's namespace; all end with the test."""
    started: list[OperatorProcess] = []

    def start(**settings: str) -> OperatorProcess:
        log = tmp_path / f"operator-{len(started)}.log"
        started.append(OperatorProcess(kubeconfig, namespace, log, settings))
        return started[-1]

    yield start
    for one in started:
        one.stop()
    for one in started:
        assert "Traceback" not in one.log, one.log
