"""The chart's canary with a real broker and a real Prometheus: records go round, and its alert tells when none does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kafka.reading import read_committed
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import LiveJob
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.cluster_job import ClusterJob
from tests.support.kubernetes.prometheus import Target, answer, prometheus

NAME = "kafkaspark-operator-canary"
ALERT = "KafkaSparkCanaryWithoutRecords"
RANGE = "[5m]"
SHORT_RANGE = "[130s]"
"""In place of the alert's, which waits for five records to be missing; a record comes each minute."""
BREAK_SECONDS = 300.0


@pytest.fixture(scope="module")
def values(place: ClusterJob) -> Mapping[str, object]:
    return {
        "canary.enabled": True,
        "canary.namespace": place.namespace,
        "canary.kafka.bootstrapServers": place.environment.bootstrap_pods,
        "canary.topics.source": place.source,
        "canary.topics.sink": place.sink,
        "canary.spec.driver.memory": "512Mi",
        "canary.spec.executor.memory": "512Mi",
        "canary.spec.restartPolicy.backoff.initialSeconds": 1,
    }


@pytest.fixture(scope="module")
def place(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A namespace with both topics, of one partition each."""
    made = make_cluster_job("canary")
    made.topics.recreate([made.source, made.sink], partitions=1)
    return made


@pytest.fixture(scope="module")
def canary(place: ClusterJob, values: Mapping[str, object]) -> Iterator[LiveJob]:
    """The canary's job, of the operator of every test."""
    installation.install(place.environment, values=values)
    try:
        with LiveJob(place.kubectl, NAME) as job:
            job.wait_ready()
            yield job
    finally:
        installation.install(place.environment)


@pytest.fixture(scope="module")
def address(place: ClusterJob, canary: LiveJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that reads the operator's pod."""
    assert canary.attempt
    operator = Kubectl(place.environment, installation.NAMESPACE).list("pods", installation.SELECTOR)[0]
    with prometheus(tmp_path_factory.mktemp("prometheus"), Target("operator", operator, 8080, {})) as found:
        yield found


def expression(environment: ClusterEnvironment, values: Mapping[str, object]) -> str:
    """The alert's, as Helm renders it, over a shorter range."""
    command = [environment.helm, "template", installation.RELEASE, str(Path(installation.chart()))]
    command += ["--namespace", installation.NAMESPACE, "-s", "templates/prometheus-rule.yaml"]
    given = {"fullnameOverride": "kafkaspark-operator", "image.repository": "a", "job.image.repository": "a"}
    given |= {"metrics.prometheusRule.enabled": "true", "canary.enabled": "true"}
    given |= {"watchNamespaceSelector.kafkaspark\\.io/jobs": "enabled"}
    given |= {name: str(value) for name, value in values.items() if isinstance(value, str)}
    command += [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    rendered = yaml.safe_load(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (found,) = (each["expr"] for each in rendered["spec"]["groups"][0]["rules"] if each["alert"] == ALERT)
    assert RANGE in found
    return str(found).replace(RANGE, SHORT_RANGE)


def values_of(place: ClusterJob, topic: str) -> list[bytes | None]:
    return [record.value for record in read_committed(place.environment.bootstrap, topic)]


def copied(place: ClusterJob) -> int:
    return len(values_of(place, place.sink))


def test_the_alert_tells_when_no_record_goes_round(
    place: ClusterJob, canary: LiveJob, values: Mapping[str, object], address: str
) -> None:
    alert = expression(place.environment, values)
    await_that("two records have gone round", lambda: copied(place) >= 2, seconds=BREAK_SECONDS, pause=2)
    source, sink = (values_of(place, topic) for topic in (place.source, place.sink))
    begin = source.index(sink[0])
    assert sink == source[begin : begin + len(sink)], "in order, and each once"
    await_that("no alert", lambda: answer(address, alert) == [], seconds=BREAK_SECONDS, pause=2)

    place.topics.delete([place.sink])
    await_that("the alert", lambda: answer(address, alert), seconds=BREAK_SECONDS, pause=2)
    assert canary.status["sink"]["recordsOut"] >= 2

    place.topics.recreate([place.sink], partitions=1)
    await_that("no alert again", lambda: answer(address, alert) == [], seconds=BREAK_SECONDS, pause=2)
    assert copied(place) >= 1
