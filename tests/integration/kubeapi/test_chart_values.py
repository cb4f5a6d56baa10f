"""The values of the chart that most charts have: each one's effect on what is rendered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.settings import settings_from_environment
from kafkasparkjob_operator.workload import read_job_settings
from tests.support.kubernetes.api_client import REPOSITORY
from tests.support.kubernetes.chart_alerts import rules

Render = Callable[..., list[dict[str, Any]]]

CHART = REPOSITORY / "charts/kafkaspark-operator"
APP_VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests if each["kind"] == kind]


def pod_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = of_kind(manifests, "Deployment")[0]["spec"]["template"]["spec"]
    return spec


def test_both_images_come_from_a_registry(chart: Render) -> None:
    container = pod_of(chart("image.registry=reg:5000", "job.image.registry=jobs.example.com"))["containers"][0]
    assert container["image"] == f"reg:5000/kafkaspark/operator:{APP_VERSION}"
    variables = {each["name"]: each.get("value") for each in container["env"]}
    image = f"jobs.example.com/kafkaspark/sparkapp:{APP_VERSION}"
    assert variables["KAFKASPARK_OPERATOR_DEFAULT_JOB_IMAGE"] == image


def test_a_registry_alone_is_no_default_image(chart: Render) -> None:
    container = pod_of(chart("job.image.registry=jobs.example.com", "job.image.repository="))["containers"][0]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["KAFKASPARK_OPERATOR_DEFAULT_JOB_IMAGE"] == ""


def test_defaults_and_lists_for_jobs_reach_the_operator(chart: Render) -> None:
    container = pod_of(
        chart(
            "job.imagePullSecrets[0].name=registry", "job.driver.podTemplate.spec.nodeSelector.pool=streaming",
            "job.executor.podTemplate.spec.terminationGracePeriodSeconds=40",
            "job.allowedNames.images={registry.example.com/**}",
            "job.allowedNames.namespaces.team-a.secrets={team-a-*,shared}",
        )
    )["containers"][0]  # fmt: skip
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    jobs = read_job_settings(settings_from_environment(environment))
    assert jobs.user == {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    assert jobs.image_pull_secrets == ("registry",)
    assert jobs.driver.spec == {"nodeSelector": {"pool": "streaming"}}
    assert jobs.executor.spec == {"terminationGracePeriodSeconds": 40}
    assert jobs.allowed.allows("team-a", "secrets", "team-a-1")
    assert not jobs.allowed.allows("team-a", "images", "app")
    assert not read_job_settings(settings_from_environment({})).allowed.limits


def test_the_user_of_jobs_can_be_left_to_the_platform(chart: Render) -> None:
    container = pod_of(chart("job.podSecurityContext.runAsUser=null", "job.podSecurityContext.fsGroup=1000670000"))
    environment = {each["name"]: each["value"] for each in container["containers"][0]["env"] if "value" in each}
    jobs = read_job_settings(settings_from_environment(environment))
    assert jobs.user == {"runAsGroup": 10001, "fsGroup": 1000670000}


def test_the_user_can_be_left_to_openshift_and_the_rest_stays(chart: Render) -> None:
    manifests = chart("podSecurityContext.runAsUser=null", "podSecurityContext.runAsGroup=null")
    for pod in (pod_of(manifests), of_kind(manifests, "Pod")[0]["spec"]):
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_scratch_space_of_every_pod_is_limited(chart: Render) -> None:
    manifests = chart("tmpDirSizeLimit=32Mi", "resources.limits.ephemeral-storage=1Gi")
    operator, tester = pod_of(manifests), of_kind(manifests, "Pod")[0]["spec"]
    assert operator["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "32Mi"}}]
    assert operator["containers"][0]["resources"]["limits"]["ephemeral-storage"] == "1Gi"
    assert operator["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "64Mi"
    assert "volumes" not in tester
    assert tester["containers"][0]["resources"]["limits"]["ephemeral-storage"]


def test_a_probes_times_change_and_its_request_stays(chart: Render) -> None:
    probe = pod_of(chart("livenessProbe.failureThreshold=9"))["containers"][0]["livenessProbe"]
    assert probe == {
        "httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 5,
        "failureThreshold": 9,
    }  # fmt: skip


def test_volumes_mounts_and_sources_of_variables_are_added(chart: Render) -> None:
    pod = pod_of(
        chart(
            "extraVolumes[0].name=ca", "extraVolumes[0].configMap.name=ca", "extraVolumeMounts[0].name=ca",
            "extraVolumeMounts[0].mountPath=/mnt/ca", "envFrom[0].secretRef.name=proxy",
        )
    )  # fmt: skip
    assert [volume["name"] for volume in pod["volumes"]] == ["tmp", "ca"]
    container = pod["containers"][0]
    assert container["volumeMounts"][1] == {"name": "ca", "mountPath": "/mnt/ca"}
    assert container["envFrom"] == [{"secretRef": {"name": "proxy"}}]


def test_extra_objects_are_manifests_or_templates(chart: Render) -> None:
    made = chart(
        "extraObjects[0].apiVersion=v1", "extraObjects[0].kind=ConfigMap", "extraObjects[0].metadata.name=plain",
        "extraObjects[1]=apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-more'}",
    )  # fmt: skip
    assert [each["metadata"]["name"] for each in of_kind(made, "ConfigMap")] == ["plain", "kafkaspark-operator-more"]


def test_a_service_monitor_keeps_the_labels_of_the_series(chart: Render) -> None:
    assert of_kind(chart(), "ServiceMonitor") == []
    manifests = chart("metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.labels.release=prom")
    (monitor,) = of_kind(manifests, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prom"
    assert monitor["spec"]["endpoints"] == [
        {"port": "http", "path": "/metrics", "honorLabels": True, "interval": "30s"}
    ]
    labels = of_kind(manifests, "Service")[0]["metadata"]["labels"]
    assert labels.items() >= monitor["spec"]["selector"]["matchLabels"].items()
    off = chart("metrics.serviceMonitor.enabled=true", "metrics.service.enabled=false")
    assert of_kind(off, "ServiceMonitor") == []


@pytest.mark.parametrize("own", [False, True])
def test_a_rule_has_the_charts_alerts_or_the_users(chart: Render, own: bool) -> None:
    assert of_kind(chart(), "PrometheusRule") == []
    values = ("metrics.prometheusRule.rules[0].alert=Mine", "metrics.prometheusRule.rules[0].expr=up == 0") * own
    (rule,) = of_kind(chart("metrics.prometheusRule.enabled=true", *values), "PrometheusRule")
    (group,) = rule["spec"]["groups"]
    if own:
        assert group["rules"] == [{"alert": "Mine", "expr": "up == 0"}]
        return
    assert [each["alert"] for each in group["rules"]] == [*rules()]
    summaries = {each["alert"]: each["annotations"]["summary"] for each in group["rules"]}
    assert "{{ $labels.namespace }}/{{ $labels.job }}" in summaries["KafkaSparkJobNotReady"]
