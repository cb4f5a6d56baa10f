"""A real Prometheus reads a running job and its operator; each query of the dashboards has an answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clusterjob import installation
from clusterjob.kubectl import Kubectl
from dashboards import DASHBOARDS, Dashboard
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.chart_alerts import rules
from tests.support.kubernetes.cluster_job import NAME, ClusterJob
from tests.support.kubernetes.prometheus import Target, answer
from tests.support.kubernetes.prometheus import prometheus as running_prometheus

NEVER = frozenset({
    "Watermark lag", "Restarts", "Refused watches and dropped events", "Oldest open transactions",
    "Time since the last checkpoint",
})  # fmt: skip
"""Panels that are empty for a healthy job without watermarks, or while nothing is open or unread."""


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    cluster_job = make_cluster_job("boards")
    cluster_job.load(100)
    cluster_job.apply()
    cluster_job.job.wait_ready()
    return cluster_job


@pytest.fixture(scope="module")
def prometheus(cluster_job: ClusterJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that reads both pods with the labels of the chart's monitors."""
    operator = Kubectl(cluster_job.environment, installation.NAMESPACE).list("pods", installation.SELECTOR)[0]
    driver = cluster_job.kubectl.get("pod", names.driver_pod(NAME, cluster_job.job.attempt)) or {}
    labels = {"namespace": cluster_job.namespace, "kafkaspark_io_job": NAME}
    targets = Target("operator", operator, 8080, {}), Target("driver", driver, 8090, labels)
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), *targets) as address:
        yield address


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_each_panel_shows_something(dashboard: Dashboard, cluster_job: ClusterJob, prometheus: str) -> None:
    # Rates need two scrapes with records between them.
    cluster_job.load(100)
    for panel in dashboard.panels:
        queries = [q.replace("$namespace", cluster_job.namespace).replace("$job", NAME) for q, _ in panel.queries]
        if panel.title in NEVER:
            for query in queries:
                answer(prometheus, query)  # no error
        else:
            await_that(
                f"{panel.title}: {queries}",
                lambda asked=queries: any(answer(prometheus, query) for query in asked),
                pause=1,
            )


def test_the_numbers_are_those_of_the_job(cluster_job: ClusterJob, prometheus: str) -> None:
    count = cluster_job.load(500)
    cluster_job.assert_exactly_once(count)
    query = f'kafkaspark_job_records_out{{namespace="{cluster_job.namespace}",job="{NAME}"}}'
    await_that("all records", lambda: [each["value"][1] for each in answer(prometheus, query)] == [str(count)], pause=1)


def test_no_alert_of_a_healthy_job_fires(cluster_job: ClusterJob, prometheus: str) -> None:
    for rule in rules().values():
        firing = answer(prometheus, rule["expr"])
        assert [each for each in firing if each["metric"].get("namespace") == cluster_job.namespace] == [], rule


def test_a_sidecar_finds_the_dashboards(cluster_job: ClusterJob) -> None:
    chart = Path(installation.chart())
    command = [cluster_job.environment.helm, "template", "x", str(chart), "--set", "image.repository=a"]
    command += ["--set", "metrics.grafanaDashboards.enabled=true", "-s", "templates/grafana-dashboards.yaml"]
    found = yaml.safe_load(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {json.loads(text)["uid"] for text in found["data"].values()} == {
        f"kafkaspark-{board.name}" for board in DASHBOARDS
    }
