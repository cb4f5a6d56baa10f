"""End to end on the cluster of `make cluster-up`: one operator a run, and for each test a place of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
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
