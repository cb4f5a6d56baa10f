"""What a pod template may set, how it is merged, and what is refused by its name."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from kafkasparkjob_operator.identity import ANNOTATION_METADATA, JobIdentity
from kafkasparkjob_operator.resources.driver_pod import driver_pod
from kafkasparkjob_operator.resources.executor_template import executor_pod_template
from kafkasparkjob_operator.resources.spark_conf import spark_conf
from kafkasparkjob_operator.resources.strategic_merge import strategic_merge
from kafkasparkjob_operator.workload import DesiredJob, desired_from_resource
from kafkasparkjob_operator.workload.pod_rules import of_volume_name
from sparkapp.model.errors import ConfigurationError
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, OperatorFixture, job_body, record_name
from tests.support.kubernetes.pod_templates import EVERYTHING, everything

JOB = JobIdentity("team", "orders", "job-uid")
ROLES = ("driver", "executor")


def wanted(**spec: Any) -> DesiredJob:
    return desired_from_resource(job_body(**spec)["spec"], namespace="team", name="orders")


def pod_of(role: str, desired: DesiredJob) -> dict[str, Any]:
    if role == "driver":
        return driver_pod(JOB, desired, claim_uid="claim", attempt=3)
    return executor_pod_template(JOB, desired, attempt=3)


def refused(role: str, template: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        wanted(**{role: {"podTemplate": template}})
    assert caught.value.message.startswith(f"spec.{role}.podTemplate"), caught.value.message
    return f"{caught.value.message}; {caught.value.remedy}"


@pytest.mark.parametrize("role", ROLES)
def test_a_template_without_fields_changes_nothing(role: str) -> None:
    assert pod_of(role, wanted(**{role: {"podTemplate": {}}})) == pod_of(role, wanted())


@pytest.mark.parametrize("role", ROLES)
def test_everything_that_a_template_may_set_is_in_the_pod(role: str) -> None:
    template = everything(role)
    before, pod = pod_of(role, wanted()), pod_of(role, wanted(**{role: {"podTemplate": template}}))
    metadata = template["metadata"]
    assert pod["metadata"]["labels"] == {**before["metadata"]["labels"], **metadata["labels"]}
    assert pod["metadata"].get("annotations", {}).items() >= metadata["annotations"].items()
    for name, value in EVERYTHING["spec"].items():
        if name not in {"volumes", "securityContext"}:
            assert pod["spec"][name] == value, name
    assert pod["spec"]["volumes"] == [*before["spec"]["volumes"], *EVERYTHING["spec"]["volumes"]]
    security = {**before["spec"]["securityContext"], "fsGroupChangePolicy": "OnRootMismatch"}
    assert pod["spec"]["securityContext"] == security
    (container,), (ours,) = pod["spec"]["containers"], before["spec"]["containers"]
    (given,) = template["spec"]["containers"]
    assert container["env"] == [*ours["env"], *given["env"]]
    assert container.get("envFrom") == given.get("envFrom")
    assert container["volumeMounts"] == [*ours["volumeMounts"], *given["volumeMounts"]]
    untouched = {"env", "envFrom", "volumeMounts"}
    assert {name: value for name, value in container.items() if name not in untouched} == {
        name: value for name, value in ours.items() if name not in untouched
    }


@pytest.mark.parametrize("role", ROLES)
def test_a_field_without_a_value_removes_nothing(role: str) -> None:
    """A chart that renders an empty list writes null; Kubernetes takes it for an absent field."""
    container = {"name": role, "env": None, "envFrom": None, "volumeMounts": None}
    metadata = {"labels": None, "annotations": {"note": None}}
    spec = {"containers": [container], "nodeSelector": None, "securityContext": {"fsGroupChangePolicy": None}}
    template = {"metadata": metadata, "spec": spec}
    assert pod_of(role, wanted(**{role: {"podTemplate": template}})) == pod_of(role, wanted())


@pytest.mark.parametrize("role", ROLES)
def test_an_empty_dir_without_a_value_has_the_size_limit(role: str) -> None:
    def volumes(source: dict[str, Any] | None) -> list[Any]:
        template = {"spec": {"volumes": [{"name": "scratch", "secret": None, "emptyDir": source}]}}
        return list(pod_of(role, wanted(**{role: {"podTemplate": template}}))["spec"]["volumes"])

    assert volumes(None)[-1] == {"name": "scratch", "emptyDir": {"sizeLimit": "10240Mi"}}
    assert volumes({"medium": None}) == volumes(None)


def test_spark_gives_executors_the_templates_grace() -> None:
    name = "spark.kubernetes.executor.terminationGracePeriodSeconds"
    template = {"spec": {"terminationGracePeriodSeconds": 40}}
    assert spark_conf(JOB, wanted(), attempt=1)[name] == "5s"
    assert spark_conf(JOB, wanted(executor={"podTemplate": template}), attempt=1)[name] == "40s"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"restartPolicy": "Always"}, "spec.restartPolicy is refused: a pod that restarts in place would be two attempts"),
    ({"serviceAccountName": "admin"}, "spec.serviceAccountName is refused: the operator creates"),
    ({"serviceAccount": "admin"}, "spec.serviceAccount is refused"),
    ({"automountServiceAccountToken": True}, "spec.automountServiceAccountToken is refused"),
    ({"hostNetwork": True}, "spec.hostNetwork is refused: the pod must not share the node's namespaces"),
    ({"hostPID": True}, "spec.hostPID is refused"),
    ({"hostIPC": True}, "spec.hostIPC is refused"),
    ({"shareProcessNamespace": True}, "spec.shareProcessNamespace is refused"),
    ({"ephemeralContainers": []}, "spec.ephemeralContainers is refused"),
    ({"initContainers": []}, "spec.initContainers is refused"),
    ({"nodeName": "node-1"}, "skips the scheduler; use nodeSelector or affinity"),
    ({"activeDeadlineSeconds": 60}, "would kill a healthy attempt"),
    ({"imagePullSecrets": []}, "use spec.imagePullSecrets"),
    ({"runtimeClassName": "gvisor"}, "spec.runtimeClassName is refused"),
    ({"resourceClaims": []}, "spec.resourceClaims is refused: a pod template cannot set it"),
    ({"$patch": "replace"}, "spec.$patch is refused"),
    ({"priorityClassName": "system-node-critical"}, "the class is for Kubernetes itself"),
    ({"dnsPolicy": "ClusterFirstWithHostNet"}, "spec.dnsPolicy: ClusterFirstWithHostNet is refused"),
    ({"securityContext": {"runAsUser": 0}}, "spec.securityContext.runAsUser is refused"),
    ({"securityContext": {"runAsNonRoot": False}}, "spec.securityContext.runAsNonRoot is refused"),
    ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "spec.securityContext.seccompProfile is refused"),
    ({"terminationGracePeriodSeconds": 2}, "spec.terminationGracePeriodSeconds: 2 is refused"),
    ({"terminationGracePeriodSeconds": "180"}, "spec.terminationGracePeriodSeconds: 180 is refused"),
    ({"nodeSelector": "ssd"}, "spec.nodeSelector must be"),
    ({"tolerations": {}}, "spec.tolerations must be"),
    ({"containers": [{"name": "sidecar"}]}, "spec.containers: 'sidecar' is refused: the pod has a single container"),
    ({"containers": [{"image": "x"}]}, "spec.containers: None is refused: the pod has a single container"),
    ({"containers": {}}, "spec.containers must be a list of objects"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "'v' is refused: hostPath is not allowed"),
    ({"volumes": [{"name": "v", "csi": {"driver": "x"}}]}, "csi is not allowed; use one of configMap"),
    ({"volumes": [{"name": "v"}]}, "a volume without a kind is not allowed"),
    ({"volumes": [{"name": "v", "secret": None}]}, "a volume without a kind is not allowed"),
    ({"volumes": [{"name": "v", "emptyDir": {}, "secret": {}}]}, "emptyDir, secret is not allowed"),
    ({"volumes": [{"name": "v", "secret": {}}]}, "secretName of 'v' must be a name"),
    ({"volumes": [{"emptyDir": {}}]}, "spec.volumes: name must be"),
    ({"volumes": [{"name": "v", "secret": {"secretName": "../x"}}]}, "secretName of 'v': '../x' cannot be the name of"),
    ({"volumes": [{"name": "v", "configMap": {"name": "Code"}}]}, "name of 'v': 'Code' cannot be the name of"),
    (
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": ".."}}]}}]},
        "sources of 'v': secret: name: '..' cannot be the name of an object",
    ),
    *(
        ({"volumes": [{"name": name, "emptyDir": {}}]}, f"{name!r} is refused: the operator and Spark use the name")
        for name in ("tmp", "work", "code", "state", "job", "schema-registry", "kafka-user", "spark-local-dir-1")
    ),
    (
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        "serviceAccountToken is refused: is not allowed",
    ),
]  # fmt: skip


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("aliases", [[{}], [{"ip": {}}], [{"ip": ""}], ["x"], [{"ip": "10.0.0.1"}, {}]])
def test_aliases_that_cannot_be_merged_are_refused(aliases: list[Any]) -> None:
    """Whoever merges them onto an administrator's aliases looks for the address of each."""
    assert "hostAliases" in refused("driver", {"spec": {"hostAliases": aliases}})


@pytest.mark.parametrize("levels", [100, 9_000])
def test_a_template_that_is_nested_deeply_is_refused(levels: int) -> None:
    assert "100 levels" in refused("driver", {"spec": {"affinity": nested(levels)}})
    assert "100 levels" in refused("executor", {"spec": {"affinity": [nested(levels)]}})


def test_a_message_shows_a_part_of_a_value() -> None:
    assert len(refused("driver", {"spec": {"affinity": "x" * 1_000_000}})) < 500


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_a_field_that_breaks_the_protocol_or_the_security_is_refused(
    role: str, spec: dict[str, Any], message: str
) -> None:
    assert message in refused(role, {"spec": spec})


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"command": ["sh"]}, "containers[0].command is refused: the image's entrypoint starts"),
        ({"args": ["x"]}, "containers[0].args is refused"),
        ({"image": "x"}, "use spec.image"),
        ({"ports": []}, "use spec.metrics.prometheus.port"),
        ({"resources": {}}, "use memory, memoryOverhead and resources"),
        ({"lifecycle": {}}, "a hook takes its time from the last checkpoint's"),
        ({"livenessProbe": {}}, "judges the driver by its heartbeat"),
        ({"volumeDevices": []}, "containers[0].volumeDevices is refused: a pod template cannot set it"),
        ({"securityContext": {"privileged": True}}, "a privileged container is root on its node"),
        ({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "the container has no capability"),
        ({"securityContext": {"runAsUser": 0}}, "the image's user is not root"),
        ({"env": [{"name": "SPARK_HOME", "value": "/x"}]}, "'SPARK_HOME' is set by the operator"),
        ({"env": [{"name": "HOME", "value": "/x"}]}, "'HOME' is set by the operator; give the variable another name"),
        ({"env": [{"name": "API_KEY", "value": "x"}]}, "the value of API_KEY looks like a credential"),
        ({"env": [{"value": "x"}]}, "env: name must be a string that is not empty"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "'x' is no volume of the template; add the volume to"),
        ({"volumeMounts": [{"name": "tmp", "mountPath": "/x"}]}, "'tmp' is no volume of the template"),
    ],
)
def test_a_field_of_the_container_is_refused(role: str, container: dict[str, Any], message: str) -> None:
    assert message in refused(role, {"spec": {"containers": [{"name": role, **container}]}})


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([{"prefix": "SPARK_", "secretRef": {"name": "x"}}], "'SPARK_' is set by the operator"),
        ([{"prefix": "A_"}], "needs exactly one of secretRef and configMapRef"),
        ([{"secretRef": {}}], "secretRef: name must be a string that is not empty"),
        ([{"fileRef": {"name": "x"}}], "envFrom.fileRef is refused"),
    ],
)
def test_a_source_of_variables_is_refused(sources: list[dict[str, Any]], message: str) -> None:
    assert message in refused("driver", {"spec": {"containers": [{"name": "driver", "envFrom": sources}]}})


def test_one_text_has_the_labels_and_annotations_of_executors() -> None:
    template = {"metadata": {"labels": {"b": "2", "a": ""}, "annotations": {"example.com/x": "y = z"}}}
    pod = pod_of("executor", wanted(executor={"podTemplate": template}))
    text = "label a=\nlabel b=2\nannotation example.com/x=y = z"
    assert pod["metadata"]["annotations"] == {"example.com/x": "y = z", ANNOTATION_METADATA: text}
    assert "annotations" not in pod_of("executor", wanted())["metadata"]


@pytest.mark.parametrize(
    "path",
    [
        "/", "/tmp", "/etc", "/etc/kafkaspark", "/etc/kafkaspark/job", "/etc/kafkaspark/credentials/x",
        "/var/kafkaspark", "/var/kafkaspark/work", "/mnt/../etc/kafkaspark/job", "/usr/local", "/dev",
        "/var/run/secrets/x",
        "//tmp/",
    ],
)  # fmt: skip
def test_a_mount_over_our_paths_is_refused(path: str) -> None:
    container = {"name": "driver", "volumeMounts": [{"name": "mine", "mountPath": path}]}
    template = {"spec": {"volumes": [{"name": "mine", "emptyDir": {}}], "containers": [container]}}
    assert f"volumeMounts: {path} is refused: it would cover files" in refused("driver", template)


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"mountPath": "relative"}, "must be an absolute path"),
        ({"mountPath": "/mnt", "mountPropagation": "Bidirectional"}, "mountPropagation of 'mine' is refused"),
    ],
)
def test_a_mount_names_a_place_and_nothing_of_the_node(mount: dict[str, Any], message: str) -> None:
    container = {"name": "executor", "volumeMounts": [{"name": "mine", **mount}]}
    template = {"spec": {"volumes": [{"name": "mine", "emptyDir": {}}], "containers": [container]}}
    assert message in refused("executor", template)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"metadata": {"ownerReferences": []}}, "metadata.ownerReferences is refused: the operator names and owns"),
        ({"metadata": {"name": "x"}}, "metadata.name is refused"),
        ({"metadata": {"finalizers": ["x"]}}, "metadata.finalizers is refused"),
        ({"metadata": {"labels": {"kafkaspark.io/role": "driver"}}}, "labels: 'kafkaspark.io/role' is refused"),
        ({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}, "find their pods by it"),
        ({"metadata": {"labels": {"spark-role": "x"}}}, "labels: 'spark-role' is refused"),
        ({"metadata": {"labels": {"tier": "a b"}}}, "labels: 'tier' is refused: Kubernetes allows at most 63 letters"),
        ({"metadata": {"labels": {"tier": "a\nlabel app=x"}}}, "is refused: Kubernetes allows at most 63 letters"),
        ({"metadata": {"labels": {"tier": "a" * 64}}}, "is refused: Kubernetes allows at most 63 letters"),
        ({"metadata": {"labels": {"example.com/": "a"}}}, "is refused: Kubernetes allows at most 63 letters"),
        ({"metadata": {"annotations": {"a": "b\nlabel app=x"}}}, "the grant of an annotation has one line"),
        ({"metadata": {"labels": {"tier": 1}}}, "write numbers and booleans in quotes"),
        ({"metadata": {"annotations": {"streaming.kafkaspark.io/x": "x"}}}, "recognizes its pods by it"),
        (
            {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/driver": "unconfined"}}},
            "the operator decides the pod's security",
        ),
        ({"kind": "Pod"}, "podTemplate.kind is refused"),
        ({"spec": []}, "podTemplate.spec must be an object"),
        ("driver", "podTemplate must be an object"),
    ],
)
def test_metadata_of_the_operator_is_refused(template: Any, message: str) -> None:
    for role in ROLES:
        assert message in refused(role, template)


def test_the_driver_keeps_the_time_that_its_last_checkpoint_needs() -> None:
    assert "set at least 120, or remove it" in refused("driver", {"spec": {"terminationGracePeriodSeconds": 119}})


def test_an_executor_has_the_grace_that_the_policy_allows() -> None:
    wanted(executor={"podTemplate": {"spec": {"terminationGracePeriodSeconds": 600}}})
    assert "set at most 600" in refused("executor", {"spec": {"terminationGracePeriodSeconds": 601}})
    wanted(driver={"podTemplate": {"spec": {"terminationGracePeriodSeconds": 601}}})


def test_the_choice_of_a_node_is_granted_with_the_labels() -> None:
    spec = {
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "pool", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, {}],
        "schedulerName": "batch",
        "affinity": {},
    }
    pod = pod_of("executor", wanted(executor={"podTemplate": {"spec": spec}}))
    assert pod["metadata"]["annotations"][ANNOTATION_METADATA].splitlines() == [
        "nodeSelector pool=spot",
        "toleration key=pool operator=Exists value= effect=NoExecute seconds=0",
        "toleration key= operator= value= effect= seconds=",
        "schedulerName batch",
        "affinity",
    ]


@pytest.mark.parametrize("role", ROLES)
def test_every_volume_of_the_operators_has_a_name_that_templates_cannot_use(role: str) -> None:
    scram = {"type": "scram-sha-512", "username": "u", "passwordSecret": {"secretName": "s", "password": "k"}}
    full = wanted(
        kafka={"bootstrapServers": "kafka:9092", "tls": {}, "authentication": scram},
        transform={"python": {"function": "a:b", "configMapRef": {"name": "code"}}},
        checkpoint={"stateVolume": {"claimName": "c"}},
    )
    names = [volume["name"] for volume in pod_of(role, full)["spec"]["volumes"]]
    assert len(names) >= 5
    assert all(of_volume_name(name) for name in names)


def test_items_of_a_list_are_merged_by_their_key_and_others_replaced() -> None:
    base = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "tolerations": [{"key": "a"}], "x": 1}
    before = deepcopy(base)
    patch = {
        "env": [{"name": "C", "value": "3"}, {"name": "A", "value": None, "valueFrom": {}}],
        "tolerations": [{"key": "b"}], "x": None,
    }  # fmt: skip
    assert strategic_merge(base, patch) == {
        "env": [{"name": "A", "valueFrom": {}}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
        "tolerations": [{"key": "b"}],
    }
    assert base == before


async def test_a_refused_template_is_named_in_config_valid_and_starts_nothing() -> None:
    fixture = OperatorFixture(driver={"podTemplate": {"spec": {"hostNetwork": True}}})
    await fixture.settle()
    assert fixture.drivers == []
    condition = fixture.kubernetes.condition(KEY, "ConfigValid")
    assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec")
    assert condition["message"] == (
        "spec.driver.podTemplate.spec.hostNetwork is refused: the pod must not share the node's namespaces;"
        " remove the field"
    )


async def test_a_changed_template_drains_the_job_and_starts_it_with_the_new_one() -> None:
    fixture = OperatorFixture()
    await fixture.run(1)
    fixture.kubernetes.edit_job(KEY, executor={"podTemplate": everything("executor")})
    await fixture.settle()
    fixture.driver_ends(1, DRAINED)
    await fixture.settle()
    assert fixture.drivers[-1] == "orders-2-driver"
    record = fixture.kubernetes.objects["ConfigMap", KEY.namespace, record_name(2)]["data"]
    assert "topologySpreadConstraints" in record["executor-pod-template.yaml"]
    assert json.loads(record["spark-conf.json"])["spark.kubernetes.executor.terminationGracePeriodSeconds"] == "180s"


@pytest.mark.parametrize("role", ROLES)
def test_pods_get_the_access_key_of_a_store_of_state_from_its_secret_alone(role: str) -> None:
    credentials = {"secretName": "state-access", "accessKeyId": "user"}
    s3 = {"bucket": "state", "endpoint": "http://seaweedfs:8333", "credentials": credentials}
    pod = pod_of(role, wanted(checkpoint={"state": {"storage": {"s3": s3}}}))
    found = {each["name"]: each.get("valueFrom") for each in pod["spec"]["containers"][0]["env"]}
    assert found["AWS_ACCESS_KEY_ID"] == {"secretKeyRef": {"name": "state-access", "key": "user"}}
    assert found["AWS_SECRET_ACCESS_KEY"] == {"secretKeyRef": {"name": "state-access", "key": "AWS_SECRET_ACCESS_KEY"}}
    without = pod_of(role, wanted(checkpoint={"state": {"storage": {"s3": {"bucket": "state"}}}}))
    assert not any(each["name"].startswith("AWS_") for each in without["spec"]["containers"][0]["env"])
