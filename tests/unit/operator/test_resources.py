"""The manifests of a job, compared with the files in ``golden``; ``KAFKASPARK_GOLDEN=write`` rewrites them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.identity import ANNOTATION_CLAIM, JobIdentity
from kafkasparkjob_operator.observation.pod_view import pod_view
from kafkasparkjob_operator.resources.access import executor_service_account, role, role_binding, service_account
from kafkasparkjob_operator.resources.config_maps import (
    REFERENCES_KEY,
    RESOURCE_SPEC_KEY,
    attempt_config_map,
    attempt_references,
    checkpoints_config_map,
    report_config_map,
    state_config_map,
)
from kafkasparkjob_operator.resources.driver_pod import driver_pod
from kafkasparkjob_operator.resources.executor_template import executor_pod_template
from kafkasparkjob_operator.resources.references import recorded_references
from kafkasparkjob_operator.resources.revisions import Modules
from kafkasparkjob_operator.resources.spark_conf import spark_conf
from kafkasparkjob_operator.workload import NO_SETTINGS, DesiredJob, desired_from_resource
from sparkapp.model import names
from sparkapp.model.job.codec import decode_job
from tests.support.kubernetes.operator_fixture import job_body
from tests.support.kubernetes.pod_templates import everything

GOLDEN = Path(__file__).parent / "golden"
JOB = JobIdentity("team", "orders", "job-uid")
FULL: dict[str, Any] = {
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "kafka": {
        "bootstrapServers": "kafka:9092",
        "tls": {
            "trustedCertificates": [
                {"secretName": "kafka-cluster-ca-cert", "certificate": "ca.crt"},
                {"secretName": "more-authorities", "pattern": "*.crt"},
            ]
        },
        "authentication": {
            "type": "scram-sha-512",
            "username": "orders",
            "passwordSecret": {"secretName": "kafka-user", "password": "pw"},
        },
    },
    "source": {
        "topics": ["in"],
        "format": {"value": "avro"},
        "schemaRegistry": {
            "url": "https://registry:8081",
            "authentication": {
                "type": "basic",
                "username": "orders",
                "passwordSecret": {"secretName": "registry-user", "password": "pw"},
            },
            "tls": {"trustedCertificates": [{"secretName": "registry-ca", "certificate": "ca.pem"}]},
        },
    },
    "transform": {"python": {"function": "enrich:transform", "configMapRef": {"name": "enrich-code"}}},
    "checkpoint": {"stateVolume": {"claimName": "orders-volume"}},
    "driver": {
        "memory": "2Gi",
        "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": 2}},
        "env": [{"name": "REGION", "value": "eu"}],
    },
    "executor": {
        "cores": 2,
        "resources": {"limits": {"cpu": "1.5"}},
        "memory": "3Gi",
        "memoryOverhead": "600Mi",
        "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}}],
    },
    "sparkConf": {"spark.sql.shuffle.partitions": "8"},
    "parallelism": 5,
    "metrics": {"prometheus": {"port": 9404}},
}

TEMPLATES: dict[str, Any] = {role: {"podTemplate": everything(role)} for role in ("driver", "executor")}


def wanted(spec: dict[str, Any]) -> DesiredJob:
    return desired_from_resource(job_body(**spec)["spec"], namespace="team", name="orders")


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        ("service-account", service_account(JOB)),
        ("executor-service-account", executor_service_account(JOB)),
        ("role", role(JOB, attempt_references(JOB, wanted({}), attempt=3))),
        ("role-full", role(JOB, attempt_references(JOB, wanted(FULL), attempt=3))),
        ("role-binding", role_binding(JOB)),
        ("state-config-map", state_config_map(JOB)),
        ("checkpoints-config-map", checkpoints_config_map(JOB)),
        ("report-config-map", report_config_map(JOB)),
        ("driver-pod", driver_pod(JOB, wanted({}), claim_uid="claim", attempt=3)),
        ("driver-pod-full", driver_pod(JOB, wanted(FULL), claim_uid="claim", attempt=3)),
        ("executor-template", executor_pod_template(JOB, wanted({}), attempt=3)),
        ("executor-template-full", executor_pod_template(JOB, wanted(FULL), attempt=3)),
        ("driver-pod-template", driver_pod(JOB, wanted(TEMPLATES), claim_uid="claim", attempt=3)),
        ("executor-template-template", executor_pod_template(JOB, wanted(TEMPLATES), attempt=3)),
        ("spark-conf", spark_conf(JOB, wanted({}), attempt=3)),
        ("spark-conf-full", spark_conf(JOB, wanted(FULL), attempt=3)),
    ],
)
def test_golden(name: str, manifest: dict[str, Any]) -> None:
    path = GOLDEN / f"{name}.yaml"
    # Through JSON: YAML would note which parts are the same object.
    text = yaml.safe_dump(json.loads(json.dumps(manifest)), sort_keys=False)
    if os.environ.get("KAFKASPARK_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_the_driver_reads_the_job_that_the_operator_wrote() -> None:
    resource = job_body(**FULL)["spec"]
    modules = Modules(name="orders-c0123456789", source="enrich-code", digest="content", files="files")
    mounted = wanted(FULL).with_modules(modules.name)
    body = attempt_config_map(
        JOB, wanted(FULL), attempt=3, generation=7, resource_spec=resource, modules=modules, revision="orders-r1"
    )
    assert body["immutable"] is True
    assert body["metadata"]["name"] == names.attempt_config_map("orders", JOB.uid, 3)
    job = decode_job(body["data"][names.JOB_KEY])
    assert (job.namespace, job.name, job.uid, job.generation, job.attempt) == ("team", "orders", "job-uid", 7, 3)
    assert job.spec == wanted(FULL).spec
    recorded = json.loads(body["data"][RESOURCE_SPEC_KEY])
    references = recorded_references(recorded.pop(REFERENCES_KEY))
    assert recorded == {"generation": 7, "spec": resource, "revision": "orders-r1", "codeDigest": "content"}
    assert body["data"][names.MODULES_KEY] == "files"
    assert references == attempt_references(JOB, mounted, attempt=3)
    assert references.configmaps == ("orders-c0123456789",)
    assert {"api", "kafka-user", "registry", "registry-ca", "registry-user"} <= set(references.secrets)
    settings = json.loads(body["data"][names.SPARK_CONF_KEY])
    assert all(isinstance(value, str) for value in settings.values())
    template = yaml.safe_load(body["data"][names.EXECUTOR_POD_TEMPLATE_KEY])
    assert template == executor_pod_template(JOB, mounted, attempt=3)


@pytest.mark.parametrize("spec", [{}, FULL, TEMPLATES])
def test_every_pod_satisfies_the_restricted_pod_security_standard(spec: dict[str, Any]) -> None:
    pods = (
        driver_pod(JOB, wanted(spec), claim_uid="claim", attempt=1),
        executor_pod_template(JOB, wanted(spec), attempt=1),
    )
    for pod in pods:
        body = pod["spec"]
        assert body["securityContext"]["runAsNonRoot"] is True
        assert body["securityContext"]["runAsUser"] > 0
        assert body["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(body)
        assert all(
            set(volume) - {"name"} <= {"emptyDir", "configMap", "secret", "persistentVolumeClaim", "projected"}
            for volume in body["volumes"]
        )
        for container in body["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
    assert pods[1]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("spec", [{}, FULL, TEMPLATES])
def test_every_scratch_volume_and_every_container_has_a_limit(spec: dict[str, Any]) -> None:
    spec = {**spec, "executor": {**spec.get("executor", {}), "resources": {"limits": {"ephemeral-storage": "2Gi"}}}}
    pods = (
        (driver_pod(JOB, wanted(spec), claim_uid="claim", attempt=1), "10240Mi"),
        (executor_pod_template(JOB, wanted(spec), attempt=1), "2048Mi"),
    )
    for pod, limit in pods:
        scratch = {volume["name"]: volume["emptyDir"] for volume in pod["spec"]["volumes"] if "emptyDir" in volume}
        # The template's own volume keeps its own limit.
        own = {"cache": {"sizeLimit": "1Gi"}} if spec.get("driver", {}).get("podTemplate") else {}
        assert scratch == {name: {"sizeLimit": limit} for name in scratch} | own
        assert {"tmp", "work"} <= scratch.keys()
        for container in pod["spec"]["containers"]:
            assert container["resources"]["limits"]["ephemeral-storage"] == limit
            assert container["resources"]["requests"]["ephemeral-storage"] == "256Mi"


def test_a_volume_of_a_template_without_a_size_limit_gets_one() -> None:
    volumes = [{"name": "model", "emptyDir": {"medium": "Memory"}}, {"name": "other", "emptyDir": None}]
    desired = wanted({"driver": {"podTemplate": {"spec": {"volumes": volumes}}}})
    found = {volume["name"]: volume for volume in driver_pod(JOB, desired, claim_uid="c", attempt=1)["spec"]["volumes"]}
    assert found["model"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "10240Mi"}


def test_no_secret_value_is_anywhere_but_in_a_reference() -> None:
    text = json.dumps(driver_pod(JOB, wanted(FULL), claim_uid="claim", attempt=1)) + json.dumps(
        spark_conf(JOB, wanted(FULL), attempt=1)
    )
    assert "secretName" in text
    assert '"sasl' not in text


def test_the_registrys_secrets_are_files_of_driver_and_executors_alike() -> None:
    pods = (
        driver_pod(JOB, wanted(FULL), claim_uid="claim", attempt=1),
        executor_pod_template(JOB, wanted(FULL), attempt=1),
    )
    for pod in pods:
        volumes = {each["name"]: each["secret"] for each in pod["spec"]["volumes"] if "schema-registry" in each["name"]}
        assert volumes == {
            "schema-registry-ca-0": {
                "secretName": "registry-ca", "defaultMode": 0o440, "items": [{"key": "ca.pem", "path": "ca.pem"}],
            },
            "schema-registry-user": {
                "secretName": "registry-user", "defaultMode": 0o440, "items": [{"key": "pw", "path": "password"}],
            },
        }  # fmt: skip
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        path = f"{names.SCHEMA_REGISTRY_DIRECTORY}/user"
        assert {"name": "schema-registry-user", "mountPath": path, "readOnly": True} in mounts


def test_the_secrets_of_both_registries_are_apart() -> None:
    user = {"type": "basic", "username": "orders", "passwordSecret": {"secretName": "sink-user", "password": "pw"}}
    registry = {"url": "https://other:8081", "authentication": user}
    desired = wanted({**FULL, "sink": {"topic": "out", "format": {"value": "avro"}, "schemaRegistry": registry}})
    pods = (
        driver_pod(JOB, desired, claim_uid="claim", attempt=1),
        executor_pod_template(JOB, desired, attempt=1),
    )
    for pod in pods:
        volumes = {each["name"]: each.get("secret", {}).get("secretName") for each in pod["spec"]["volumes"]}
        assert (volumes["schema-registry-user"], volumes["sink-registry-user"]) == ("registry-user", "sink-user")
        mounts = {each["name"]: each["mountPath"] for each in pod["spec"]["containers"][0]["volumeMounts"]}
        assert mounts["schema-registry-user"] == f"{names.SCHEMA_REGISTRY_DIRECTORY}/user"
        assert mounts["sink-registry-user"] == f"{names.SINK_REGISTRY_DIRECTORY}/user"
    assert desired.spec.sink.schema_registry is not None
    assert str(desired.spec.sink.schema_registry.user_folder) == f"{names.SINK_REGISTRY_DIRECTORY}/user"
    assert "sink-user" in attempt_references(JOB, desired, attempt=1).secrets


def test_a_token_of_the_service_account_is_the_same_users_in_driver_and_executors() -> None:
    authentication = {"type": "oauth", "serviceAccountToken": {"audience": "kafka", "expirationSeconds": 900}}
    desired = wanted({"kafka": {"bootstrapServers": "b:1", "tls": {}, "authentication": authentication}})
    token = {"path": "token", "audience": "kafka", "expirationSeconds": 900}
    template = executor_pod_template(JOB, desired, attempt=1)
    for pod in (driver_pod(JOB, desired, claim_uid="claim", attempt=1), template):
        assert pod["spec"]["serviceAccountName"] == names.service_account("orders")
        (volume,) = (found for found in pod["spec"]["volumes"] if found["name"] == "kafka-user")
        assert volume["projected"] == {"defaultMode": 0o440, "sources": [{"serviceAccountToken": token}]}
    assert template["spec"]["automountServiceAccountToken"] is False
    plain = executor_pod_template(JOB, wanted(FULL), attempt=1)
    assert plain["spec"]["serviceAccountName"] == names.executor_service_account("orders")
    assert attempt_references(JOB, desired, attempt=1).audiences == ("kafka",)


def test_a_registry_without_secrets_mounts_nothing() -> None:
    source = {"topics": ["in"], "format": {"value": "avro"}, "schemaRegistry": {"url": "http://registry:8081"}}
    for pod in (
        driver_pod(JOB, wanted({"source": source}), claim_uid="claim", attempt=1),
        executor_pod_template(JOB, wanted({"source": source}), attempt=1),
    ):
        assert "schema-registry" not in json.dumps(pod)


def test_a_driver_without_metrics_opens_no_port() -> None:
    pod = driver_pod(JOB, wanted({"metrics": {"prometheus": {"enabled": False}}}), claim_uid="claim", attempt=1)
    assert "ports" not in pod["spec"]["containers"][0]
    assert set(pod["metadata"]["annotations"]) == {ANNOTATION_CLAIM}


def test_names_fit_a_label_for_the_longest_job() -> None:
    """45 letters, as the resource's definition allows (``test_examples``)."""
    job = "j" * 45
    assert len(f"{names.executor_pod_prefix(job, 99_999)}-exec-99999") <= 63
    assert len(names.driver_pod(job, 99_999_999)) <= 63


def test_only_a_standby_driver_awaits_its_activation() -> None:
    plain = wanted({"metrics": {"prometheus": {"enabled": False}}})
    alone = driver_pod(JOB, plain, claim_uid="claim", attempt=2)
    standby = driver_pod(JOB, plain, claim_uid="claim", attempt=2, standby_for=7)
    variable = {"name": names.AWAITS_TURN_VARIABLE, "value": "true"}
    assert variable not in alone["spec"]["containers"][0]["env"]
    assert variable in standby["spec"]["containers"][0]["env"]
    assert set(alone["metadata"]["annotations"]) == {ANNOTATION_CLAIM}
    assert standby["metadata"]["annotations"] == {
        "kafkaspark.io/turn": "awaited", "kafkaspark.io/generation": "7", ANNOTATION_CLAIM: "claim",
        "kafkaspark.io/standby-parallelism": "2",
    }  # fmt: skip
    view = pod_view({**standby, "metadata": {**standby["metadata"], "uid": "u"}})
    assert view is not None
    assert (view.awaits_activation, view.generation, view.attempt) == (True, 7, 2)


def test_executors_lost_long_ago_do_not_end_a_driver() -> None:
    settings = spark_conf(JOB, wanted({"executor": {"instances": 2}}), attempt=1)
    assert settings["spark.executor.failuresValidityInterval"] == "1h"
    assert settings["spark.executor.maxNumFailures"] == "20"
    many = spark_conf(JOB, wanted({"parallelism": 12, "executor": {"instances": 12}}), attempt=1)
    assert many["spark.executor.maxNumFailures"] == "48"


def test_no_page_of_sparks_is_served_unless_the_job_asks_for_it() -> None:
    settings = spark_conf(JOB, wanted({}), attempt=1)
    assert (settings["spark.ui.enabled"], settings["spark.ui.killEnabled"]) == ("false", "false")


def test_the_users_settings_replace_the_defaults() -> None:
    asked = {
        "spark.executor.maxNumFailures": "7", "spark.executor.failuresValidityInterval": "10m",
        "spark.ui.enabled": "true",
    }  # fmt: skip
    settings = spark_conf(JOB, wanted({"sparkConf": asked}), attempt=1)
    assert settings.items() >= {**asked, "spark.ui.killEnabled": "false"}.items()


def test_driver_and_executors_mount_the_secrets_of_both_clusters() -> None:
    sink = {"topic": "out", "kafka": {**FULL["kafka"], "bootstrapServers": "other:9092"}}
    spec = job_body(**(FULL | {"sink": sink}))["spec"]
    desired = desired_from_resource(spec, namespace="team", name="orders", settings=NO_SETTINGS)
    for pod in (driver_pod(JOB, desired, attempt=1, claim_uid=""), executor_pod_template(JOB, desired, attempt=1)):
        folders = {
            f"{names.CREDENTIALS_DIRECTORY}/{prefix}{name}" for prefix in ("", "sink-") for name in ("user", "ca-0")
        }
        (container,) = pod["spec"]["containers"]
        assert folders <= {mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = [volume["name"] for volume in pod["spec"]["volumes"]]
        assert len(volumes) == len(set(volumes))


def test_executors_have_the_account_of_a_token_for_either_cluster() -> None:
    token = {"type": "oauth", "serviceAccountToken": {"audience": "kafka"}}
    kafka = {"bootstrapServers": "other:9092", "tls": {}, "authentication": token}
    spec = job_body(sink={"topic": "out", "kafka": kafka})["spec"]
    desired = desired_from_resource(spec, namespace="team", name="orders", settings=NO_SETTINGS)
    pod = executor_pod_template(JOB, desired, attempt=1)["spec"]
    assert pod["serviceAccountName"] == names.service_account("orders")
    assert [volume["name"] for volume in pod["volumes"] if "projected" in volume] == ["kafka-sink-user"]


def test_names_at_kafka_have_no_uid_and_names_of_objects_have() -> None:
    """A recreated job continues as its predecessor; jobs of two Kubernetes clusters must have names of their own."""
    names_at_kafka, objects = set(), set()
    for uid in ("uid-of-a", "uid-of-b"):
        body = attempt_config_map(
            JobIdentity("team", "orders", uid), wanted({}), attempt=1, generation=1, resource_spec=job_body()["spec"],
            modules=Modules(name="", source="", digest="", files=""), revision="",
        )  # fmt: skip
        spec = decode_job(body["data"][names.JOB_KEY]).spec
        names_at_kafka.add((spec.source.group_id, spec.sink.transactional_id_prefix))
        objects.add(body["metadata"]["name"])
    assert names_at_kafka == {("team.orders", "team.orders")}
    assert len(objects) == 2
