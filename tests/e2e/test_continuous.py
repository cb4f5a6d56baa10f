"""The continuous engine on the cluster, with a function from a ConfigMap. The demo can run in this engine, too."""

from __future__ import annotations

from tests.e2e.conftest import MakeClusterJob

BATCH = 5_000
_MODULE = """
class Same:
    def __call__(self, batch):
        return [batch.slice(0, 10), batch.slice(10)]
"""


def test_auto_runs_an_arrow_function_in_executor_pods_and_a_dead_driver_repeats_nothing(
    make_cluster_job: MakeClusterJob,
) -> None:
    cluster_job = make_cluster_job("arrow")
    cluster_job.kubectl.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "arrows"}, "data": {"arrows.py": _MODULE}}
    )
    records = cluster_job.load(BATCH)
    cluster_job.apply(
        engine="Auto", transform={"arrow": {"factory": "arrows:Same", "configMapRef": {"name": "arrows"}}}
    )
    cluster_job.job.wait_ready()
    cluster_job.assert_exactly_once(records)
    message = "spec.engine is Auto, and Continuous can run the job"
    assert cluster_job.job.status["engine"] == {"name": "Continuous", "message": message}

    cluster_job.job.kill_driver()
    records = cluster_job.load(BATCH)
    cluster_job.job.wait_ready(attempt_above=1)
    cluster_job.assert_exactly_once(records)
