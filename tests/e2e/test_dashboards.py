"""A real Prometheus reads a running job and its operator; each query of the dashboards has an answer."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusterjob import installation
from clusterjob.kubectl import Kubectl
from dashboards import DASHBOARDS, Dashboard
from localcluster.machine.ports import free_ports
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.chart_alerts import rules
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

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
    """The address of Debian's Prometheus, which reads both pods each second with the labels of the chart's monitors."""
    folder = tmp_path_factory.mktemp("prometheus")
    subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["dpkg", "-x", str(next(folder.glob("*.deb"))), "."], cwd=folder, check=True)
    operator = Kubectl(cluster_job.environment, installation.NAMESPACE).list("pods", installation.SELECTOR)[0]
    driver = cluster_job.kubectl.get("pod", names.driver_pod(NAME, cluster_job.job.attempt)) or {}
    labels = {"namespace": cluster_job.namespace, "kafkaspark_io_job": NAME}
    jobs = [("operator", operator, 8080, {}), ("driver", driver, 8090, labels)]
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": name, "honor_labels": True,
             "static_configs": [{"targets": [f"{pod['status']['podIP']}:{port}"], "labels": given}]}
            for name, pod, port, given in jobs
        ],
    }  # fmt: skip
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    command = ["usr/bin/prometheus", f"--web.listen-address={address}", "--config.file=prometheus.yml"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            await_that("Prometheus answers", lambda: _is_ready(address), pause=0.5)
            yield address
        finally:
            process.terminate()


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=20):
            return True
    except OSError:
        return False


def answer(address: str, query: str) -> list[Any]:
    asked = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(asked, timeout=20) as response:
        found = json.load(response)
    assert found["status"] == "success", found
    return list(found["data"]["result"])


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
