"""A job whose pods run with a user and group as OpenShift chooses them: without an entry in /etc/passwd, in group 0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 5_000
USER = 1000670000


@pytest.fixture(scope="module")
def cluster_job(operator: ClusterEnvironment, make_cluster_job: MakeClusterJob) -> Iterator[ClusterJob]:
    chosen = {"runAsUser": USER, "runAsGroup": None, "fsGroup": USER}
    installation.install(operator, values={f"job.podSecurityContext.{name}": id_ for name, id_ in chosen.items()})
    cluster_job = make_cluster_job("any-user")
    cluster_job.load(BATCH)
    cluster_job.apply()
    yield cluster_job
    cluster_job.job.delete()
    installation.install(operator)


def test_a_job_with_a_user_without_a_name_completes_its_checkpoints(cluster_job: ClusterJob) -> None:
    cluster_job.assert_exactly_once(BATCH)
    driver = names.driver_pod(NAME, cluster_job.job.attempt)
    (executor, *_) = cluster_job.job.pods(names.ROLE_EXECUTOR)
    for pod in (driver, executor["metadata"]["name"]):
        assert cluster_job.kubectl.run("exec", pod, "--", "id").startswith(
            f"uid={USER} gid=0(root) groups=0(root),{USER}"
        )
        # The image's allocator stays, next to the library that gives the user a name.
        loaded = cluster_job.kubectl.run("exec", pod, "--", "cat", "/proc/1/maps")
        assert "/libjemalloc.so.2" in loaded
        assert "/libnss_wrapper.so" in loaded
