"""The chart: what it renders, what the API server says to it, and what its schema refuses."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.settings import Settings
from sparkapp.model import names
from tests.support.kubernetes.api_client import JOBS, REPOSITORY, ApiClient, await_that
from tests.support.kubernetes.chart_images import IMAGES

CHART = REPOSITORY / "charts/kafkaspark-operator"
DEFINITION = REPOSITORY / "crds/kafkasparkjobs.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APP_VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
EVERYTHING = (
    "replicas=2", "watchNamespaces={team-a,team-b}", "networkPolicy.enabled=true", "podDisruptionBudget.enabled=true",
    "image.digest=sha256:" + "0" * 64, "imagePullSecrets[0].name=registry", "priorityClassName=high",
    "podLabels.team=data", "commonLabels.cost=42a", "env[0].name=A", "env[0].value=b", "nodeSelector.disk=ssd",
    "serviceAccount.annotations.a=b", "metrics.service.annotations.a=b", "image.registry=registry.example.com",
    "envFrom[0].secretRef.name=proxy", "extraVolumes[0].name=ca", "extraVolumes[0].configMap.name=ca",
    "extraVolumeMounts[0].name=ca", "extraVolumeMounts[0].mountPath=/mnt/ca", "livenessProbe.failureThreshold=9",
    "podSecurityContext.runAsUser=null", "podSecurityContext.runAsGroup=null", "terminationGracePeriodSeconds=60",
)  # fmt: skip
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}

Render = Callable[..., list[dict[str, Any]]]


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests if each["kind"] == kind]


def helm(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Helm's answer; with images, unless the command has none."""
    command, *others = arguments
    images = () if command == "package" else (f"--set={image}" for image in IMAGES)
    return subprocess.run(
        [str(kubeconfig.parent / "bin/helm"), command, *images, *others], capture_output=True, text=True, check=False
    )


def test_lint_is_content(kubeconfig: Path) -> None:
    done = helm(kubeconfig, "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_charts_definitions_are_links_to_the_definitions() -> None:
    links = sorted(CHART.glob("files/*.yaml"))
    assert all(link.is_symlink() for link in links)
    assert [link.resolve() for link in links] == sorted(DEFINITION.parent.glob("*.yaml"))


def test_a_package_holds_the_definition(kubeconfig: Path, tmp_path: Path) -> None:
    done = helm(kubeconfig, "package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as archive:
        for file in CHART.glob("files/*.yaml"):
            packaged = archive.extractfile(f"kafkaspark-operator/files/{file.name}")
            assert packaged is not None
            assert packaged.read() == file.read_bytes()


@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["defaults", "everything"])
def test_the_api_server_takes_every_object(
    chart: Render, api: ApiClient, namespace: str, values: tuple[str, ...]
) -> None:
    kinds = set()
    for manifest in chart(*values):
        kinds.add(manifest["kind"])
        if manifest["kind"] == "CustomResourceDefinition":
            continue  # the fixture has installed it
        manifest["metadata"]["name"] += "-dry"  # the operators of these tests have the rights of the same names
        namespaced = manifest["metadata"].pop("namespace", "")
        path = PATHS[manifest["kind"]].format(namespace if namespaced else "")
        api.call("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
    assert "Deployment" in kinds
    assert {"NetworkPolicy", "PodDisruptionBudget"} <= kinds or not values


class OneOfEachKey(yaml.CSafeLoader):
    """Refuses what YAML forbids and most parsers let through: a key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"twice: {keys}"
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["defaults", "everything"])
def test_no_key_is_there_twice(kubeconfig: Path, values: tuple[str, ...]) -> None:
    done = helm(
        kubeconfig, "template", "kafkaspark", str(CHART), *(part for each in values for part in ("--set", each))
    )
    assert done.returncode == 0, done.stderr
    assert len([each for each in yaml.load_all(done.stdout, OneOfEachKey) if each]) > 5


def test_the_service_does_not_choose_the_tests_pod(chart: Render) -> None:
    manifests = chart()
    selector = of_kind(manifests, "Service")[0]["spec"]["selector"]
    labels = of_kind(manifests, "Pod")[0]["metadata"]["labels"]
    assert not labels.items() >= selector.items()
    assert of_kind(manifests, "Deployment")[0]["spec"]["template"]["metadata"]["labels"].items() >= selector.items()


def test_two_releases_of_one_name_share_nothing(kubeconfig: Path) -> None:
    def cluster_wide(namespace: str) -> set[tuple[str, str]]:
        done = helm(kubeconfig, "template", "kafkaspark", str(CHART), "--namespace", namespace)
        every = yaml.load_all(done.stdout, yaml.CSafeLoader)
        found = [each for each in every if each and "namespace" not in each["metadata"]]
        return {
            (each["kind"], each["metadata"]["name"]) for each in found if each["kind"] != "CustomResourceDefinition"
        }

    assert len(cluster_wide("team-a")) == 16
    assert not cluster_wide("team-a") & cluster_wide("team-b")


def test_a_single_operator_keeps_no_node_from_being_drained(chart: Render) -> None:
    assert of_kind(chart("podDisruptionBudget.enabled=true"), "PodDisruptionBudget") == []
    assert len(of_kind(chart("podDisruptionBudget.enabled=true", "replicas=2"), "PodDisruptionBudget")) == 1


def test_ha_is_two_pods_on_different_nodes_and_a_budget(chart: Render) -> None:
    made = chart("ha=true")
    (deployment,) = of_kind(made, "Deployment")
    assert deployment["spec"]["replicas"] == 2
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["labelSelector"] == deployment["spec"]["selector"]
    (budget,) = of_kind(made, "PodDisruptionBudget")
    assert budget["spec"] == {"minAvailable": 1, "selector": deployment["spec"]["selector"]}
    assert of_kind(chart("ha=true", "replicas=3"), "Deployment")[0]["spec"]["replicas"] == 3
    assert of_kind(chart("ha=true", "replicas=0"), "Deployment")[0]["spec"]["replicas"] == 0
    own = "topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone"
    (deployment,) = of_kind(chart("ha=true", own), "Deployment")
    assert deployment["spec"]["template"]["spec"]["topologySpreadConstraints"] == [
        {"topologyKey": "topology.kubernetes.io/zone"}
    ]


def test_the_operators_pod_is_admitted_as_restricted(chart: Render, api: ApiClient, namespace: str) -> None:
    template = of_kind(chart(), "Deployment")[0]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": template["spec"]}
    api.call("POST", f"{PATHS['Pod'].format(namespace)}?dryRun=All", pod)


def test_every_setting_of_the_deployment_is_one_of_the_operators(chart: Render) -> None:
    container = of_kind(chart(), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
    given = {each["name"].removeprefix("KAFKASPARK_OPERATOR_").lower() for each in container["env"]}
    known = {field.name for field in fields(Settings)}
    assert given <= known
    assert known - given == {"identity"}


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ((), f"kafkaspark/sparkapp:{APP_VERSION}"),
        (("job.image.repository=registry/own", "job.image.tag=v7"), "registry/own:v7"),
        (("job.image.digest=sha256:" + "0" * 64, "job.image.tag=v7"), "kafkaspark/sparkapp@sha256:" + "0" * 64),
        (("job.image.repository=",), ""),
    ],
    ids=["of the release", "own", "by digest", "none"],
)
def test_the_default_job_image(chart: Render, values: tuple[str, ...], image: str) -> None:
    container = of_kind(chart(*values), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
    given = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert given["KAFKASPARK_OPERATOR_DEFAULT_JOB_IMAGE"] == image


def test_no_image_is_of_a_registry_that_the_user_has_not_named(kubeconfig: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert values["image"]["repository"] == values["job"]["image"]["repository"] == ""
    done = helm(kubeconfig, "template", "x", str(CHART), "--set", "image.repository=")
    assert done.returncode != 0
    for part in (
        "set image.repository, and job.image.repository for jobs without spec.image",
        "Either push the two images to your registry (docs/quick-start.md)",
        "--set image.repository=REGISTRY/kafkaspark/operator --set job.image.repository=REGISTRY/kafkaspark/sparkapp",
        "Or load them onto every node",
    ):
        assert part in done.stderr


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("kafkaspark-operator", (), "kafkaspark-operator"),
        ("team", (), "team-kafkaspark-operator"),
        ("team", ("nameOverride=ksj",), "team-ksj"),
        ("team-ksj", ("nameOverride=ksj",), "team-ksj"),
        ("team", ("fullnameOverride=own",), "own"),
    ],
)
def test_names_are_those_of_helm_create(kubeconfig: Path, release: str, values: tuple[str, ...], name: str) -> None:
    done = helm(kubeconfig, "template", release, str(CHART), *(part for value in values for part in ("--set", value)))
    manifests = [manifest for manifest in yaml.load_all(done.stdout, yaml.CSafeLoader) if manifest]
    assert of_kind(manifests, "Deployment")[0]["metadata"]["name"] == name


@pytest.mark.parametrize("values", [(), ("job.image.repository=", "watchNamespaces={team-a}")], ids=["own", "named"])
def test_the_job_of_the_notes_is_one_that_the_api_server_takes(
    kubeconfig: Path, api: ApiClient, values: tuple[str, ...]
) -> None:
    settings = [part for value in values for part in ("--set", value)]
    done = helm(kubeconfig, "install", "x", str(CHART), "--dry-run=client", *settings)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("\nNOTES:\n")[2]
    assert "rollout status deployment/x-kafkaspark-operator" in notes
    assert notes.count(" --namespace team-a ") == (2 if values else 0)
    assert values or notes.count(" --namespace default ") >= 2
    job = yaml.safe_load(notes.partition("<<EOF\n")[2].partition("\nEOF\n")[0])
    assert ("image" in job["spec"]) == bool(values)
    api.call("POST", f"{JOBS.format('default')}?dryRun=All&fieldValidation=Strict", job)


def test_the_definition_is_kept_and_can_be_left_out(chart: Render) -> None:
    found = of_kind(chart(), "CustomResourceDefinition")
    assert [each["metadata"]["name"] for each in found] == [
        f"{plural}.{names.GROUP}" for plural in (names.PLURAL, names.SNAPSHOT_PLURAL)
    ]
    for definition in found:
        assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert definition["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        file = DEFINITION.parent / f"{definition['spec']['names']['plural']}.yaml"
        assert definition["spec"] == yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["spec"]
    deletable = of_kind(chart("crds.keep=false"), "CustomResourceDefinition")
    assert all("annotations" not in each["metadata"] for each in deletable)
    assert of_kind(chart("crds.install=false"), "CustomResourceDefinition") == []


@pytest.mark.parametrize("keep", [True, False])
def test_what_confines_drivers_stays_as_long_as_they_do(chart: Render, keep: bool) -> None:
    """`helm uninstall` leaves drivers running where it keeps the definition."""
    kept = {
        (each["kind"], each["metadata"]["name"].rpartition("-")[2])
        for each in chart(f"crds.keep={str(keep).lower()}")
        if each["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }
    policies = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    confining = {(kind, name) for kind in policies for name in ("drivers", "attempts")}
    assert {each for each in kept if each[0] in policies} == (confining if keep else set())


def test_a_cluster_that_stores_v1alpha1_is_left_as_it_is(kubeconfig: Path, api: ApiClient, tmp_path: Path) -> None:
    group = "previous.example.com"  # a definition of its own: the other tests use the real one
    copied = Path(shutil.copytree(CHART, tmp_path / "chart"))
    for file in (*copied.glob("files/*.yaml"), copied / "templates/crds.yaml"):
        file.write_text(file.read_text(encoding="utf-8").replace(names.GROUP, group), encoding="utf-8")
    file = copied / "files/kafkasparkjobs.yaml"
    previous = yaml.safe_load(file.read_text(encoding="utf-8").replace("v1beta1", "v1alpha1"))
    previous["spec"]["names"]["shortNames"] = []
    api.call("POST", f"{DEFINITIONS}", previous)
    install = ("upgrade", "--install", "previous", str(copied), "--namespace=previous", "--create-namespace")
    flags = (f"--kubeconfig={kubeconfig}", "--set=fullnameOverride=previous")
    done = helm(kubeconfig, *install, *flags)
    assert "the cluster stores KafkaSparkJobs of v1alpha1" in done.stderr, done.stdout + done.stderr
    assert api.items(PATHS["ServiceAccount"].format("previous")) == []
    api.call("DELETE", f"{DEFINITIONS}/{names.PLURAL}.{group}")
    await_that("it is gone", lambda: api.get(f"{DEFINITIONS}/{names.PLURAL}.{group}") is None)
    done = helm(kubeconfig, *install, *flags, "--dry-run=server")
    assert done.returncode == 0, done.stderr


def test_named_namespaces_need_no_right_over_the_cluster(chart: Render) -> None:
    manifests = chart("watchNamespaces={team-a,team-b}", "rbac.aggregateClusterRoles=false")
    assert of_kind(manifests, "ClusterRole") == of_kind(manifests, "ClusterRoleBinding") == []
    assert [each["metadata"]["namespace"] for each in of_kind(manifests, "Role")] == [
        "team-a", "team-b", "kafkaspark-system",
    ]  # fmt: skip


def test_the_policy_for_drivers_is_left_out_by_its_value_alone(chart: Render) -> None:
    policies = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    for kind in policies:
        found = {policy["metadata"]["name"] for policy in of_kind(chart(), kind)}
        own = ("operator", "operator-pods", "operator-jobs", "operator-expiry", "operator-snapshots")
        parties = ("attempts", "drivers", *own)
        assert found == {f"kafkaspark-system-kafkaspark-operator-{party}" for party in parties}
        assert of_kind(chart("allowUnconfinedDrivers=true"), kind) == []
    assert of_kind(chart(), policies[0])[0]["spec"]["failurePolicy"] == "Fail"
    assert of_kind(chart(), policies[1])[0]["spec"]["validationActions"] == ["Deny"]


def test_a_selector_is_the_only_way_to_rights_over_the_cluster(kubeconfig: Path, chart: Render) -> None:
    manifests = chart("rbac.aggregateClusterRoles=false")
    assert of_kind(manifests, "ClusterRole") == of_kind(manifests, "ClusterRoleBinding") == []
    assert {role["metadata"]["namespace"] for role in of_kind(manifests, "Role")} == {"kafkaspark-system"}
    selector = "watchNamespaceSelector.kafkaspark\\.io/jobs=enabled"
    (role,) = of_kind(chart(selector, "rbac.aggregateClusterRoles=false"), "ClusterRole")
    assert {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]} in role["rules"]
    both = helm(kubeconfig, "template", "x", str(CHART), "--set", selector, "--set", "watchNamespaces={team-a}")
    assert "set watchNamespaces or watchNamespaceSelector, not both" in both.stderr


def test_no_right_to_read_secrets_and_none_by_wildcard(chart: Render) -> None:
    for manifest in (*of_kind(chart(), "ClusterRole"), *of_kind(chart(), "Role")):
        for rule in manifest["rules"]:
            assert "secrets" not in rule["resources"] or rule["verbs"] in (["use"], ["create"])
            assert "*" not in rule["resources"] + rule["verbs"] + rule["apiGroups"]


def test_a_pod_monitor_finds_the_drivers_of_the_watched_namespaces(chart: Render) -> None:
    assert of_kind(chart(), "PodMonitor") == []
    monitor = of_kind(chart("metrics.podMonitor.enabled=true", "metrics.podMonitor.labels.release=prom"), "PodMonitor")
    assert monitor[0]["metadata"]["labels"]["release"] == "prom"
    spec = monitor[0]["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["kafkaspark-system"]}
    assert spec["selector"]["matchLabels"] == {names.LABEL_ROLE: names.ROLE_DRIVER}
    assert spec["podMetricsEndpoints"][0] == {
        "port": names.METRICS_PORT, "path": names.METRICS_PATH, "interval": "30s"
    }  # fmt: skip
    assert set(spec["podTargetLabels"]) == {names.LABEL_JOB, names.LABEL_ATTEMPT}
    some = chart("metrics.podMonitor.enabled=true", "watchNamespaces={team-a,team-b}")
    assert of_kind(some, "PodMonitor")[0]["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("metrics.podMonitor.interval=often", "does not match pattern"),
        ("replica=2", "additional properties 'replica' not allowed"),
        ("image.host=x", "additional properties 'host' not allowed"),
        ("replicas=many", "got string, want integer"),
        ("image.pullPolicy=Sometimes", "value must be one of"),
        ("image.digest=latest", "does not match pattern"),
        ("operator.logLevel=info", "value must be one of"),
        ("job.allowedNames.pods={x}", "additional properties 'pods' not allowed"),
        ("job.allowedNames.namespaces.a.pods={x}", "additional properties 'pods' not allowed"),
        ("job.allowedNames.images=x", "got string, want array"),
        ("job.podSecurityContext.runAsUser=0", "minimum: got 0, want 1"),
        ("job.podSecurityContext.privileged=true", "additional properties 'privileged' not allowed"),
        ("job.driver.podTemplate.kind=Pod", "additional properties 'kind' not allowed"),
        ("replicas=2,leaderElection.enabled=false", "maximum: got 2, want 1"),
        ("ha=true,leaderElection.enabled=false", "value must be false"),
    ],
)
def test_the_schema_refuses(kubeconfig: Path, value: str, message: str) -> None:
    done = helm(kubeconfig, "template", "x", str(CHART), "--set", value)
    assert done.returncode != 0
    assert message in done.stderr


def test_every_value_is_explained_and_typed(kubeconfig: Path) -> None:
    import json

    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def compare(value: Any, part: dict[str, Any], where: str) -> None:
        if isinstance(value, dict) and "properties" in part:
            assert set(value) <= set(part["properties"]), where
            for name, inner in value.items():
                compare(inner, part["properties"][name], f"{where}.{name}")

    compare(values, schema, "values")
    assert set(schema["properties"]) - set(values) == {"global"}
