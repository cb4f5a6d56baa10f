"""The chart's canary: a job, a CronJob that writes its records, and an alert when none comes through."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from tests.support.kubernetes.api_client import JOBS, REPOSITORY, ApiClient
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.chart_images import IMAGES
from tests.support.kubernetes.operator_fixture import job_body
from tests.support.kubernetes.operator_process import Running
from tests.support.kubernetes.promql import Evaluation

Render = Callable[..., list[dict[str, Any]]]

ENABLED = ("canary.enabled=true", "canary.kafka.bootstrapServers=kafka:9092")
NAME = "kafkaspark-operator-canary"


def canary(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The canary's objects by kind."""
    return {each["kind"]: each for each in manifests if each["metadata"]["name"].startswith(NAME)}


def test_by_default_there_is_none(chart: Render) -> None:
    assert canary(chart("metrics.prometheusRule.enabled=true")) == {}
    (rule,) = (each for each in chart("metrics.prometheusRule.enabled=true") if each["kind"] == "PrometheusRule")
    assert not any("Canary" in each["alert"] for each in rule["spec"]["groups"][0]["rules"])


def test_the_operator_starts_the_canarys_job(running: Running, api: ApiClient, chart: Render) -> None:
    job = canary(chart(*ENABLED, "canary.spec.parallelism=2"))["KafkaSparkJob"]
    namespace = running.place.namespace
    body = {**job, "metadata": {**job["metadata"], "namespace": namespace}}
    body["spec"]["image"] = "kafkaspark/sparkapp:1"  # this operator has no default image
    api.call("POST", JOBS.format(namespace), body)
    live = LiveJob(api, namespace, NAME)
    live.run(1, hold=False)
    assert live.body["spec"]["parallelism"] == 2
    assert live.body["spec"]["source"]["topics"] == ["kafkaspark-canary"]
    assert live.body["spec"]["sink"]["topic"] == "kafkaspark-canary-copied"


def test_the_api_server_takes_the_writer_among_restricted_pods(api: ApiClient, namespace: str, chart: Render) -> None:
    writer = canary(chart(*ENABLED, "canary.writer.configSecret=client"))["CronJob"]
    writer["metadata"]["namespace"] = namespace
    api.call("POST", f"/apis/batch/v1/namespaces/{namespace}/cronjobs?dryRun=All", writer)
    pod = writer["spec"]["jobTemplate"]["spec"]["template"]
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {**pod["metadata"], "name": "writer"}, "spec": pod["spec"]}
    api.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", made)


def test_the_writer_has_no_rights_and_the_credentials_of_its_secret_alone(chart: Render) -> None:
    spec = canary(chart(*ENABLED, "canary.writer.configSecret=client"))["CronJob"]["spec"]
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each] == ["client"]
    (container,) = pod["containers"]
    assert container["args"][0].endswith("--config /etc/kafka/client.properties")
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "TOPIC": "kafkaspark-canary", "BROKERS": "kafka:9092",
    }  # fmt: skip
    assert spec["schedule"] == "* * * * *"
    assert spec["concurrencyPolicy"] == "Forbid"


def test_the_writer_is_reached_by_nobody(chart: Render) -> None:
    manifests = chart(*ENABLED)
    policy = canary(manifests)["NetworkPolicy"]["spec"]
    assert policy["ingress"] == []
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    pod = canary(manifests)["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert "NetworkPolicy" not in canary(chart(*ENABLED, "networkPolicy.enabled=false"))


@pytest.mark.parametrize("out", [0, 7])
def test_the_alert_fires_until_records_come_through(chart: Render, out: int) -> None:
    (rule,) = (
        each for each in chart(*ENABLED, "metrics.prometheusRule.enabled=true") if each["kind"] == "PrometheusRule"
    )
    (alert,) = (each for each in rule["spec"]["groups"][0]["rules"] if "Canary" in each["alert"])
    cache = Cache()
    for name in ("orders", NAME):
        body = job_body()
        meta = {**body["metadata"], "namespace": "kafkaspark-system", "name": name}
        records = out if name == NAME else 5
        cache.put_job({**body, "metadata": meta, "status": {"state": "Running", "sink": {"recordsOut": records}}})
    assert bool(Evaluation(alert["expr"], OperatorMetrics(cache)).result()) is (out == 0)


def test_the_namespace_is_watched(chart: Render) -> None:
    made = canary(chart(*ENABLED, "watchNamespaces={team-a,team-b}"))
    assert {each["metadata"]["namespace"] for each in made.values()} == {"team-a"}
    made = canary(chart(*ENABLED, "watchNamespaces={team-a,team-b}", "canary.namespace=team-b"))
    assert {each["metadata"]["namespace"] for each in made.values()} == {"team-b"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("canary.enabled=true",), "canary.enabled needs canary.kafka.bootstrapServers"),
        ((*ENABLED, "job.image.repository="), "canary.enabled needs job.image.repository"),
        ((*ENABLED, "canary.namespace=other"), "canary.namespace other is not watched: name one of kafkaspark-system"),
        ((*ENABLED, "canary.topic=x"), "canary"),
    ],
)
def test_what_cannot_work_is_refused_with_the_value(kubeconfig: Path, values: tuple[str, ...], message: str) -> None:
    command = [str(kubeconfig.parent / "bin/helm"), "template", "x", str(REPOSITORY / "charts/kafkaspark-operator")]
    command += ["--namespace", "kafkaspark-system"]
    command += [part for value in (*IMAGES, *values) for part in ("--set", value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert message in done.stderr
