"""A driver and its own token: executors of its attempt, and nothing else (docs/security.md)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.identity import ANNOTATION_METADATA
from kafkasparkjob_operator.resources.acceptance import MOST_METADATA, MOST_METADATA_CHARACTERS
from kafkasparkjob_operator.resources.access import POLICIES
from kafkasparkjob_operator.resources.executor_metadata import metadata_text
from sparkapp.model import names
from tests.integration.kubeapi.conftest import operators
from tests.support.kubernetes.admission_policies import AdmissionPolicies
from tests.support.kubernetes.api_client import ApiClient, ApiError, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.attacks import (
    MERGE,
    Attack,
    capability,
    context,
    filled,
    other_writes,
    pod_attacks,
    variable,
)
from tests.support.kubernetes.driver_token import DriverToken
from tests.support.kubernetes.operator_process import DRIVER_POLICY, Place

JOB = "a-driver-job"
"""The name of the job has the end of a driver's service account in it."""
OTHER = "other"
SPEC: dict[str, Any] = {
    "transform": {"python": {"function": "a:b", "configMapRef": {"name": "code"}}},
    "kafka": {
        "authentication": {
            "type": "plain",
            "username": "u",
            "allowInsecure": True,
            "passwordSecret": {"secretName": "kafka", "password": "k"},
        }
    },
    "imagePullSecrets": [{"name": "registry"}],
    "checkpoint": {"stateVolume": {"claimName": "state"}},
    "executor": {
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "of-a", "key": "k"}}}],
        "podTemplate": {
            "metadata": {"labels": {"team": "data"}, "annotations": {"example.com/owner": "a=b, c"}},
            "spec": {
                "nodeSelector": {"pool": "spot"},
                "tolerations": [
                    {"key": "pool", "operator": "Equal", "value": "spot", "effect": "NoSchedule"},
                    {"key": "flaky", "operator": "Exists", "tolerationSeconds": 60, "effect": "NoExecute"},
                ],
                "terminationGracePeriodSeconds": 600,
                "containers": [
                    {
                        "name": "executor",
                        "envFrom": [{"secretRef": {"name": "all-keys"}}, {"configMapRef": {"name": "limits"}}],
                    }
                ],
            },
        },
    },
}

ATTACKS = pod_attacks(JOB, OTHER)
WRITES = other_writes()
PODS = {"own": f"{JOB}-1-driver", "other": f"{OTHER}-1-driver"}


@pytest.fixture(scope="module")
def open_place(make_place: Callable[[], Place], api: ApiClient) -> Place:
    """A namespace that enforces nothing of the Pod Security Standards."""
    place = make_place()
    enforce = {"pod-security.kubernetes.io/enforce": "privileged"}
    api.merge(f"/api/v1/namespaces/{place.namespace}", {"metadata": {"labels": enforce}})
    for name in ("default", "admin"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        api.call("POST", f"/api/v1/namespaces/{place.namespace}/serviceaccounts", account)
    return place


@pytest.fixture(scope="module")
def jobs(open_place: Place, api: ApiClient, kubeconfig: Path) -> Iterator[dict[str, LiveJob]]:
    """Two jobs of a namespace."""
    with operators(open_place, kubeconfig.parent) as start:
        start().await_leading()
        made = {name: LiveJob(api, open_place.namespace, name) for name in (JOB, OTHER)}
        made[JOB].put_modules("code", "one")
        made[JOB].create(**SPEC)
        made[OTHER].create()
        for job in made.values():
            job.await_driver(1, hold=False)
        yield made


@pytest.fixture(scope="module")
def driver(jobs: dict[str, LiveJob], api: ApiClient, kubeconfig: Path) -> DriverToken:
    pod = api.call("GET", f"{jobs[JOB].pods_path}/{names.driver_pod(JOB, 1)}")
    return DriverToken(api, pod, str(kubeconfig.parent / "pki/ca.crt"))


@pytest.fixture(scope="module")
def template(jobs: dict[str, LiveJob], api: ApiClient) -> dict[str, Any]:
    record = api.call("GET", f"{jobs[JOB].config_maps_path}/{names.attempt_config_map(JOB, jobs[JOB].uid(), 1)}")
    return dict(yaml.safe_load(record["data"][names.EXECUTOR_POD_TEMPLATE_KEY]))


@pytest.fixture
def executor(driver: DriverToken, template: dict[str, Any]) -> dict[str, Any]:
    """The pod that Spark creates."""
    pod = driver.executor(template)
    pod["spec"]["imagePullSecrets"] = [{"name": "registry"}]
    return pod


@pytest.fixture
def foreign(jobs: dict[str, LiveJob], api: ApiClient) -> Iterator[str]:
    """An executor of the other job."""
    name = jobs[OTHER].add_executor(1)
    yield name
    path = f"{jobs[OTHER].pods_path}/{name}"
    if api.get(path) is not None:
        api.call("DELETE", path)


@pytest.fixture
def previous_rights(driver: DriverToken, api: ApiClient) -> Iterator[None]:
    """More than the seven verbs on pods that drivers once had."""
    group = "rbac.authorization.k8s.io"
    parts = ("status", "ephemeralcontainers", "eviction", "binding", "exec", "attach", "portforward")
    verbs = {"apiGroups": [""], "resources": ["pods", *(f"pods/{part}" for part in parts)], "verbs": ["*"]}
    name = {"metadata": {"name": "previous-rights"}, "apiVersion": f"{group}/v1"}
    base = f"/apis/{group}/v1/namespaces/{driver.namespace}"
    reference = {"apiGroup": group, "kind": "Role", "name": "previous-rights"}
    subject = {"kind": "User", "apiGroup": group, "name": driver.account}
    api.call("POST", f"{base}/roles", {**name, "kind": "Role", "rules": [verbs]})
    binding = {**name, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    api.call("POST", f"{base}/rolebindings", binding)
    missing = f"pods/{driver.job}-1-exec-77"

    def status() -> int:
        return driver.refusal("PATCH", missing, {}, content_type=MERGE).status

    await_that("the rights are known", lambda: status() == 404)
    yield
    for plural in ("rolebindings", "roles"):
        api.call("DELETE", f"{base}/{plural}/previous-rights")
    await_that("the rights are gone", lambda: status() == 403)


def test_the_expressions_have_no_error_of_type(policies: AdmissionPolicies) -> None:
    assert policies.warnings() == []


def test_a_driver_creates_and_deletes_its_executors(driver: DriverToken, executor: dict[str, Any]) -> None:
    driver.send("POST", "pods", executor)
    driver.send("DELETE", f"pods/{executor['metadata']['name']}")


@pytest.fixture
def neighbour(
    api: ApiClient, chart: Callable[..., list[dict[str, Any]]], policies: AdmissionPolicies
) -> Iterator[None]:
    """The policy for drivers of another release, whose jobs have another user."""
    text = json.dumps(chart("job.podSecurityContext.runAsUser=12345")).replace(DRIVER_POLICY, "neighbour-drivers")
    installed = AdmissionPolicies(
        api, (each for each in json.loads(text) if each["metadata"]["name"] == "neighbour-drivers")
    )
    installed.enforce()
    yield
    installed.remove()


@pytest.mark.usefixtures("neighbour")
def test_the_policy_of_another_release_confines_no_driver_of_this_release(
    driver: DriverToken, executor: dict[str, Any], api: ApiClient
) -> None:
    """It does confine a driver whose Role names no policy, as the Roles of earlier releases do."""
    driver.send("POST", "pods?dryRun=All", executor)
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{driver.namespace}/roles/{JOB}-driver"
    rules = api.call("GET", role)["rules"]
    earlier = [rule for rule in rules if POLICIES not in rule["resources"]]
    assert len(earlier) == len(rules) - 1

    def is_refused() -> bool:
        api.merge(role, {"rules": earlier})  # each time: the operator may apply its own meanwhile
        try:
            driver.send("POST", "pods?dryRun=All", executor)
        except ApiError as error:
            return "has the security context of the executors' template" in error.message
        return False

    await_that("the other release's policy refuses the executor", is_refused)
    api.merge(role, {"rules": rules})


def test_a_deletion_by_selector_reaches_its_own_executors_only(
    driver: DriverToken, executor: dict[str, Any], api: ApiClient, foreign: str
) -> None:
    name = driver.send("POST", "pods", executor)["metadata"]["name"]
    ids = "spark-role%3Dexecutor,spark-exec-id%20in%20(1,2)"
    assert driver.refusal("DELETE", "pods").status == 403
    assert driver.refusal("DELETE", f"pods?labelSelector={names.LABEL_JOB}%3D{OTHER}").status == 403
    driver.send("DELETE", f"pods?labelSelector={ids}", {"gracePeriodSeconds": 0})
    found = {pod["metadata"]["name"] for pod in api.items(f"/api/v1/namespaces/{driver.namespace}/pods")}
    assert name not in found
    assert {foreign, driver.pod} <= found


@pytest.mark.parametrize("name", ATTACKS)
def test_no_other_pod_is_created(driver: DriverToken, executor: dict[str, Any], name: str) -> None:
    attack, message = ATTACKS[name]
    attack(executor)
    refusal = driver.refusal("POST", "pods?dryRun=All", executor)
    assert (refusal.status, message in refusal.message) == (403, True), refusal


def test_without_the_policy_every_such_pod_is_created(
    driver: DriverToken, executor: dict[str, Any], policies: AdmissionPolicies
) -> None:
    refused = {}
    with policies.off():
        for name, (attack, _) in ATTACKS.items():
            pod = copy.deepcopy(executor)
            attack(pod)
            try:
                driver.send("POST", "pods?dryRun=All", pod)
            except ApiError as error:
                refused[name] = error
    assert refused == {}


@pytest.fixture
def mine(driver: DriverToken, executor: dict[str, Any], api: ApiClient) -> Iterator[str]:
    """An executor of the driver's."""
    name = str(driver.send("POST", "pods", executor)["metadata"]["name"])
    yield name
    api.call("DELETE", f"/api/v1/namespaces/{driver.namespace}/pods/{name}")


def test_no_other_pod_is_written(driver: DriverToken, foreign: str, mine: str) -> None:
    for name, (method, path, body) in WRITES.items():
        refusal = driver.refusal(
            method, filled(path, foreign=foreign, mine=mine, **PODS), filled(body, foreign=foreign, mine=mine, **PODS)
        )
        assert refusal.status == 403, f"{name}: {refusal}"


@pytest.mark.usefixtures("previous_rights")
def test_the_policy_refuses_such_writes_whatever_the_role_says(driver: DriverToken, foreign: str, mine: str) -> None:
    for name, (method, path, body) in WRITES.items():
        kind = MERGE if method == "PATCH" else "application/json"
        refusal = driver.refusal(
            method,
            filled(path, foreign=foreign, mine=mine, **PODS),
            filled(body, foreign=foreign, mine=mine, **PODS),
            content_type=kind,
        )
        assert (refusal.status, "denied request" in refusal.message) == (403, True), f"{name}: {refusal}"


@pytest.mark.usefixtures("previous_rights")
def test_an_update_is_refused_like_a_patch(driver: DriverToken, foreign: str) -> None:
    pod = driver.send("GET", f"pods/{foreign}")
    pod["metadata"]["labels"]["a"] = "b"
    refusal = driver.refusal("PUT", f"pods/{foreign}", pod)
    assert (refusal.status, "denied request" in refusal.message) == (403, True), refusal


@pytest.mark.usefixtures("previous_rights")
def test_with_previous_rights_and_without_the_policy_they_are_carried_out(
    driver: DriverToken, foreign: str, mine: str, policies: AdmissionPolicies
) -> None:
    with policies.off():
        for name in (
            "patch of another job's executor",
            "patch of its own executor",
            "delete of another job's executor",
        ):
            method, path, body = WRITES[name]
            kind = MERGE if method == "PATCH" else "application/json"
            driver.send(method, filled(path, foreign=foreign, mine=mine, **PODS), body, content_type=kind)


def test_a_token_that_is_bound_to_no_driver_creates_nothing(
    driver: DriverToken, executor: dict[str, Any], api: ApiClient
) -> None:
    path = f"/api/v1/namespaces/{driver.namespace}/pods?dryRun=All"
    with pytest.raises(ApiError, match="not bound to a driver pod") as refused:
        api.call("POST", path, executor, user=driver.account)
    assert refused.value.status == 403


def test_no_other_namespace_is_reached(driver: DriverToken, executor: dict[str, Any]) -> None:
    assert driver.refusal("POST", "../kube-system/pods", executor).status in {403, 404}


@pytest.mark.parametrize("resource", ["secrets", "secrets/foreign", "configmaps", "configmaps/foreign", "services"])
def test_a_driver_reads_no_secret_and_no_foreign_config_map(driver: DriverToken, resource: str) -> None:
    assert driver.refusal("GET", resource).status == 403


def test_an_executor_with_as_many_secrets_as_the_policy_asks_for(
    driver: DriverToken, executor: dict[str, Any], api: ApiClient, jobs: dict[str, LiveJob]
) -> None:
    """And ConfigMaps, a token, labels and annotations.

    A policy has the budget for 28 authorization checks, an expression for two.
    """
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{driver.namespace}/roles/{JOB}-driver"
    rules = api.call("GET", role)["rules"]
    more = [f"more-{number}" for number in range(14)]
    labels = {f"example.com/label-{number}": "v" * 63 for number in range(MOST_METADATA // 4)}
    annotations = {f"example.com/annotation-{number}": "v" * 600 for number in range(MOST_METADATA // 4)}
    spec = executor["spec"]
    spec["nodeSelector"] = {f"example.com/node-{number}": "v" * 63 for number in range(MOST_METADATA // 4)}
    spec["tolerations"] = [
        {"key": f"example.com/taint-{number}", "operator": "Equal", "value": "v" * 63, "effect": "NoSchedule"}
        for number in range(MOST_METADATA // 4)
    ]
    text = metadata_text(labels, annotations, spec)
    assert len(text.splitlines()) == MOST_METADATA
    assert MOST_METADATA_CHARACTERS * 0.9 < len(text) <= MOST_METADATA_CHARACTERS
    del executor["metadata"]["labels"]["team"]
    executor["metadata"]["labels"] |= labels
    executor["metadata"]["annotations"] = {**annotations, ANNOTATION_METADATA: text}
    kinds = {"secrets": "", "configmaps": "", "executoraudiences": names.GROUP, "executormetadata": names.GROUP}
    granted = [
        {"apiGroups": [group], "resources": [kind], "resourceNames": [*more, text], "verbs": ["use"]}
        for kind, group in kinds.items()
    ]
    for name in more[:2]:
        variable(configMapKeyRef={"name": name, "key": "k"})(executor)
    token = {"path": "token", "audience": more[0]}
    executor["spec"]["volumes"].append({"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}})
    for name in more[:12]:
        variable(secretKeyRef={"name": name, "key": "k"})(executor)
        variable(secretKeyRef={"name": name, "key": "again"})(executor)

    def admitted() -> bool:
        api.merge(role, {"rules": [*rules, *granted]})  # each time: the operator may apply its own meanwhile
        try:
            driver.send("POST", "pods?dryRun=All", executor)
        except ApiError as error:
            if "not granted" not in error.message:
                raise
            return False
        return True

    await_that("17 Secrets are admitted", admitted)
    variable(secretKeyRef={"name": more[13], "key": "k"})(executor)
    assert "at most 17 Secrets" in driver.refusal("POST", "pods?dryRun=All", executor).message
    api.merge(role, {"rules": rules})


def as_openshift(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with what the security context constraint restricted-v2 adds, and without the chart's user."""
    changed = copy.deepcopy(pod)
    context = changed["spec"]["securityContext"]
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        del context[field]
    context |= {"fsGroup": 1000670000, "seLinuxOptions": {"level": "s0:c26,c5"}}
    changed["spec"]["containers"][0]["securityContext"]["runAsUser"] = 1000670000
    security = {"openshift.io/scc": "restricted-v2", "seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}
    changed["metadata"]["annotations"] |= security
    return changed


def test_a_user_that_the_platform_chooses_is_admitted_and_root_is_not(
    driver: DriverToken,
    executor: dict[str, Any],
    api: ApiClient,
    chart: Callable[..., list[dict[str, Any]]],
    policies: AdmissionPolicies,
) -> None:
    chosen = as_openshift(executor)
    root: dict[str, Attack] = {
        "user of the pod": context(runAsUser=0), "group of the pod": context(runAsGroup=0),
        "group of the volumes": context(fsGroup=0), "type of SELinux": context(seLinuxOptions={"type": "spc_t"}),
        "user of the container": capability(runAsUser=0), "group of the container": capability(runAsGroup=0),
        "no user": context(runAsNonRoot=False),
    }  # fmt: skip

    def answer(pod: dict[str, Any]) -> str:
        try:
            driver.send("POST", "pods?dryRun=All", pod)
        except ApiError as error:
            return error.message
        return ""

    fields = [f"job.podSecurityContext.{field}=null" for field in ("runAsUser", "runAsGroup", "fsGroup")]
    assert "labels and annotations" in answer(chosen)
    try:
        AdmissionPolicies(api, chart(*fields)).enforce()
        await_that("the user is admitted", lambda: not answer(chosen))
        for name, attack in root.items():
            pod = copy.deepcopy(chosen)
            attack(pod)
            assert "security context" in answer(pod), name
    finally:
        policies.enforce()
        await_that("the user is refused again", lambda: answer(chosen))


@pytest.mark.parametrize(
    ("account", "rules"),
    [
        ("system:serviceaccount:{}:backup-driver", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]),
        ("system:serviceaccount:{}:admin-driver", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
        ("system:serviceaccount:x-driver", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]),
        ("a-person", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]),
    ],
    ids=["a driver of something else", "an administrator's service account", "no service account", "a person"],
)
def test_nobody_else_is_confined(
    open_place: Place, api: ApiClient, template: dict[str, Any], account: str, rules: list[dict[str, Any]]
) -> None:
    namespace, group, user = open_place.namespace, "rbac.authorization.k8s.io", account.format(open_place.namespace)
    base, name = f"/apis/{group}/v1/namespaces/{namespace}", {"metadata": {"name": "somebody"}}
    api.apply(f"{base}/roles/somebody", {**name, "apiVersion": f"{group}/v1", "kind": "Role", "rules": rules})
    binding = {**name, "apiVersion": f"{group}/v1", "kind": "RoleBinding"}
    binding["roleRef"] = {"apiGroup": group, "kind": "Role", "name": "somebody"}
    binding["subjects"] = [{"kind": "User", "apiGroup": group, "name": user}]
    api.apply(f"{base}/rolebindings/somebody", binding)
    pod = copy.deepcopy(template)
    pod["metadata"] = {"name": "somebodys", "namespace": namespace}
    pod["spec"]["containers"][0] |= {"image": "other:1", "securityContext": {"privileged": True}}
    path = f"/api/v1/namespaces/{namespace}/pods"

    def created() -> bool:
        try:
            api.call("POST", f"{path}?dryRun=All", pod, user=user)
        except ApiError as error:
            if "denied request" in error.message:
                raise
            return False
        return True

    await_that("the pod is created", created)
