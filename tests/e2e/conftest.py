"""End to end on the cluster of `make cluster-up`: one operator a run, and for each test a place of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from clusterjob.watch import PATIENCE, Watch
from localcluster.errors import SetupError
from tests.support.kubernetes.cluster_job import ClusterJob

MakeClusterJob = Callable[..., ClusterJob]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here carries the mark, so that `-m "not e2e"` runs without a cluster."""
    for item in items:
        if "tests/e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def environment() -> ClusterEnvironment:
    """The local cluster, behind the context guard: a person's own cluster is never touched.

    Where there is none the tests are skipped on a person's machine and fail in CI, which is meant to have one.
    """
    try:
        return ClusterEnvironment.load()
    except SetupError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{error.what}; {error.hint}")


@pytest.fixture(scope="session")
def operator(environment: ClusterEnvironment) -> ClusterEnvironment:
    """The cluster with the operator of this working tree running; it stays for the next run and for the demo."""
    installation.install(environment)
    return environment


@pytest.fixture(scope="module")
def make_cluster_job(operator: ClusterEnvironment) -> Iterator[MakeClusterJob]:
    """``make_cluster_job(word) -> ClusterJob``: a namespace, topics and a job; gone after the module."""
    made: list[ClusterJob] = []

    def make(word: str) -> ClusterJob:
        made.append(ClusterJob.make(operator, word))
        return made[-1]

    yield make
    for cluster_job in made:
        cluster_job.close()


@pytest.fixture
def deployment(operator: ClusterEnvironment) -> Iterator[Kubectl]:
    """kubectl in the operator's namespace; the operator is back after the test, whatever happened."""
    kubectl = Kubectl(operator, installation.NAMESPACE)
    yield kubectl
    start_operator(kubectl)
    status = ("rollout", "status", f"--selector={installation.SELECTOR}", "deployment", f"--timeout={PATIENCE:.0f}s")
    kubectl.run(*status, seconds=PATIENCE + 10)


def stop_operator(deployment: Kubectl) -> None:
    """Blocks until none is left."""
    deployment.run("scale", "deployment", f"--selector={installation.SELECTOR}", "--replicas=0")
    with Watch(deployment, "pods", f"--selector={installation.SELECTOR}") as watch:
        watch.wait("no operator is left", lambda found: not found)


def start_operator(deployment: Kubectl) -> None:
    """Returns at once."""
    deployment.run("scale", "deployment", f"--selector={installation.SELECTOR}", "--replicas=1")
