"""The operator and its own token: objects of KafkaSparkJobs in watched namespaces alone (docs/security.md)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkasparkjob_operator.identity import FINALIZER, JobIdentity
from kafkasparkjob_operator.resources.driver_pod import driver_pod
from kafkasparkjob_operator.workload import desired_from_resource
from sparkapp.model import names
from tests.integration.kubeapi.conftest import operators
from tests.support.kubernetes.admission_policies import await_in_force
from tests.support.kubernetes.api_client import SNAPSHOTS, ApiClient, ApiError, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.attacks import MERGE
from tests.support.kubernetes.operator_fixture import job_body
from tests.support.kubernetes.operator_process import OperatorProcess, Place
from tests.support.kubernetes.reported_load import MORE, POLICY, reports

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
NETWORK_POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"


@pytest.fixture
def token(place: Place) -> ApiClient:
    """Requests with the identity and the rights of the operator."""
    return ApiClient(place.kubeconfig)


def refused(token: ApiClient, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> str:
    """The message of the refusal."""
    with pytest.raises(ApiError) as answer:
        token.call(method, path, body, content_type=kind)
    assert answer.value.status == 403, answer.value
    return answer.value.message


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {}}


def pod(name: str, **labels: str) -> dict[str, Any]:
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    container = {"name": "c", "image": "x", "securityContext": context | {"seccompProfile": {"type": "RuntimeDefault"}}}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def network_policy(name: str, selected: dict[str, str]) -> dict[str, Any]:
    spec = {"podSelector": {"matchLabels": selected}, "policyTypes": ["Ingress"]}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


OURS = {"app.kubernetes.io/managed-by": names.MANAGED_BY, names.LABEL_JOB: "orders"}
OWNER = {"apiVersion": "streaming.kafkaspark.io/v1beta1", "kind": names.KIND, "name": "orders", "uid": "u"}
SNAPSHOT_OWNER = {**OWNER, "kind": names.SNAPSHOT_KIND}


def test_the_operator_reaches_no_other_namespace(token: ApiClient) -> None:
    refused(token, "POST", "/api/v1/namespaces/kube-system/pods", pod("p", **OURS))
    refused(token, "GET", "/api/v1/namespaces/kube-system/configmaps")
    refused(token, "GET", "/apis/streaming.kafkaspark.io/v1beta1/kafkasparkjobs")
    refused(token, "GET", "/api/v1/namespaces")


def test_the_operator_reads_no_secret_and_gets_no_token(token: ApiClient, place: Place, api: ApiClient) -> None:
    base = f"/api/v1/namespaces/{place.namespace}"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foreign"}, "stringData": {"k": "v"}}
    api.call("POST", f"{base}/secrets", secret)
    for path in ("secrets", "secrets/foreign"):
        refused(token, "GET", f"{base}/{path}")
    refused(token, "POST", f"{base}/serviceaccounts/default/token", {"spec": {}})


def test_the_operator_creates_the_secrets_of_attempts_only(token: ApiClient, place: Place, api: ApiClient) -> None:
    base, configs = (f"/api/v1/namespaces/{place.namespace}/{plural}" for plural in ("secrets", "configmaps"))
    secret, record = names.spark_secret("orders", "u", 1), names.attempt_config_map("orders", "u", 1)
    uid = api.call("POST", configs, config_map(record))["metadata"]["uid"]
    claim = {"apiVersion": "v1", "kind": "ConfigMap", "name": record, "uid": uid}
    meta = {"name": secret, "labels": OURS | {names.LABEL_ATTEMPT: "1"}, "ownerReferences": [claim]}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "immutable": True, "stringData": {"secret": "v"}}
    account = {"kubernetes.io/service-account.name": "default"}
    job = {"apiVersion": "streaming.kafkaspark.io/v1beta1", "kind": names.KIND, "name": "orders", "uid": "u"}
    await_in_force(api)
    token.call("POST", f"{base}?dryRun=All", body)
    for wrong in (
        body | {"metadata": meta | {"name": names.spark_secret("orders", "u", 2)}},
        body | {"metadata": meta | {"name": names.spark_secret("orders", "another", 1)}},
        body | {"metadata": meta | {"name": "orders-1-spark"}},
        body | {"metadata": meta | {"name": "foreign"}},
        body | {"metadata": meta | {"labels": {}}},
        body | {"metadata": meta | {"ownerReferences": []}},
        body | {"metadata": meta | {"ownerReferences": [claim | {"name": "foreign"}]}},
        body | {"metadata": meta | {"ownerReferences": [job]}},
        body | {"immutable": False},
        body | {"metadata": meta | {"annotations": account}, "type": "kubernetes.io/service-account-token"},
    ):
        refused(token, "POST", f"{base}?dryRun=All", wrong)
    token.call("POST", base, body)
    # An operator of the previous release still runs while the chart is upgraded.
    earlier = {"name": "orders-1-spark", "ownerReferences": [claim | {"name": "orders-1-job"}]}
    token.call("POST", f"{base}?dryRun=All", body | {"metadata": meta | earlier})
    merge = "application/merge-patch+json"
    refused(token, "PATCH", f"{base}/{secret}", {"metadata": {"labels": {"a": "b"}}}, kind=merge)
    for method in ("GET", "DELETE"):
        refused(token, method, f"{base}/{secret}")


def test_the_operator_writes_no_unowned_object(token: ApiClient, place: Place, api: ApiClient) -> None:
    base = f"/api/v1/namespaces/{place.namespace}"
    merge = "application/merge-patch+json"
    await_in_force(api)
    api.call("POST", f"{base}/configmaps", config_map("foreign"))
    api.call("POST", f"{base}/pods", pod("foreign"))
    refused(token, "POST", f"{base}/configmaps", config_map("more"))
    refused(token, "POST", f"{base}/configmaps", config_map("more", **OURS))  # no KafkaSparkJob owns it
    owned = config_map("more", **OURS)
    owned["metadata"]["ownerReferences"] = [SNAPSHOT_OWNER]
    token.call("POST", f"{base}/configmaps?dryRun=All", owned)
    account = {**owned, "kind": "ServiceAccount"}
    refused(token, "POST", f"{base}/serviceaccounts", account)  # a snapshot owns a ConfigMap alone
    refused(token, "PATCH", f"{base}/configmaps/foreign", {"data": {"a": "b"}}, kind=merge)
    refused(token, "PATCH", f"{base}/configmaps/foreign", {"metadata": {"labels": OURS}}, kind=merge)
    refused(token, "DELETE", f"{base}/configmaps/foreign")
    refused(token, "DELETE", f"{base}/pods/foreign")
    refused(token, "PATCH", f"{base}/pods/foreign", {"metadata": {"labels": OURS}}, kind=merge)
    refused(token, "POST", f"{base}/pods", pod("more"))
    driver = pod("more", **OURS, **{names.LABEL_ROLE: "driver"})
    driver["metadata"]["ownerReferences"] = [OWNER]
    refused(token, "POST", f"{base}/pods", driver)  # with a foreign service account
    base = NETWORK_POLICIES.format(place.namespace)
    foreign = network_policy("foreign", {})
    api.call("POST", base, foreign)
    refused(token, "PATCH", f"{base}/foreign", {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}, kind=merge)
    refused(token, "DELETE", f"{base}/foreign")
    refused(token, "POST", base, network_policy("more", {names.LABEL_JOB: "orders"}))  # no KafkaSparkJob owns it
    of_another = network_policy("more", {names.LABEL_JOB: "another"})
    of_another["metadata"] |= {"labels": OURS, "ownerReferences": [OWNER]}
    refused(token, "POST", base, of_another)
    of_every_pod = network_policy("more", {})
    of_every_pod["metadata"] |= {"labels": OURS | {names.LABEL_JOB: ""}, "ownerReferences": [OWNER]}
    refused(token, "POST", base, of_every_pod)


def privileged(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["securityContext"] |= {"privileged": True, "allowPrivilegeEscalation": True}


def of_the_node(pod: dict[str, Any]) -> None:
    pod["spec"]["volumes"].append({"name": "node", "hostPath": {"path": "/"}})


def as_root(pod: dict[str, Any]) -> None:
    pod["spec"]["securityContext"] |= {"runAsUser": 0, "runAsNonRoot": False}


def with_a_sidecar(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "sidecar"})


def of_another_owner(pod: dict[str, Any]) -> None:
    pod["metadata"]["ownerReferences"][0]["name"] = "another"


ESCAPES: dict[str, Callable[[dict[str, Any]], None]] = {
    "privileged": privileged,
    "hostPath": of_the_node,
    "root": as_root,
    "a sidecar": with_a_sidecar,
    "another owner": of_another_owner,
    "the node's network": lambda pod: pod["spec"].update(hostNetwork=True),
    "a node by name": lambda pod: pod["spec"].update(nodeName="control-plane"),
    "the name of an executor": lambda pod: pod["metadata"].update(name="orders-2-exec-1"),
}


@pytest.fixture
def open_base(place: Place, api: ApiClient) -> str:
    """A namespace that enforces nothing of the Pod Security Standards."""
    base = f"/api/v1/namespaces/{place.namespace}"
    await_in_force(api)
    api.merge(base, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "orders-driver"}}
    api.call("POST", f"{base}/serviceaccounts", account)
    return base


def driver_of(place: Place, uid: str = "u") -> dict[str, Any]:
    """The driver that the operator creates."""
    desired = desired_from_resource(job_body()["spec"], namespace=place.namespace, name="orders")
    return driver_pod(JobIdentity(place.namespace, "orders", uid), desired, attempt=2, claim_uid="c")


def test_the_operator_creates_confined_drivers_only(token: ApiClient, place: Place, open_base: str) -> None:
    create = f"{open_base}/pods?dryRun=All"
    token.call("POST", create, driver_of(place))
    for name, escape in ESCAPES.items():
        pod = driver_of(place)
        escape(pod)
        message = refused(token, "POST", create, pod)
        assert "denied request" in message, f"{name}: {message}"


def test_the_operator_changes_no_pod_that_runs(token: ApiClient, place: Place, api: ApiClient, open_base: str) -> None:
    job = LiveJob(api, place.namespace)
    job.create()
    token.call("POST", f"{open_base}/pods", driver_of(place, job.uid()))
    path = f"{open_base}/pods/orders-2-driver?dryRun=All"
    image = {"spec": {"containers": [{"name": "driver", "image": "other:1"}]}}
    strategic = "application/strategic-merge-patch+json"
    assert "the operator changes no pod" in refused(token, "PATCH", path, image, kind=strategic)
    token.call("PATCH", path, {"metadata": {"annotations": {"a": "b"}}}, content_type=MERGE)


def test_the_operator_changes_no_job(token: ApiClient, place: Place, api: ApiClient, open_base: str) -> None:
    assert open_base
    job = LiveJob(api, place.namespace)
    job.create()
    path = f"{job.path}?dryRun=All"
    for change in (
        {"spec": {"image": "other:1"}},
        {"spec": {"driver": {"podTemplate": {"metadata": {"labels": {"a": "b"}}}}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        assert "finalizers and the status of a job only" in refused(token, "PATCH", path, change, kind=MERGE)
    token.call("PATCH", path, {"metadata": {"finalizers": [FINALIZER]}}, content_type=MERGE)
    token.call("PATCH", f"{job.path}/status?dryRun=All", {"status": {"message": "m"}}, content_type=MERGE)


def test_the_operator_grants_no_more_than_it_has(token: ApiClient, place: Place) -> None:
    base = f"{RBAC}/namespaces/{place.namespace}"
    meta = {"name": "more", "labels": OURS, "ownerReferences": [OWNER]}
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["foreign"], "verbs": ["get"]}
    refused(
        token, "POST", f"{base}/roles", {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": meta, "rules": [rule]}
    )
    binding = {"apiVersion": f"{GROUP}/v1", "kind": "RoleBinding", "metadata": meta, "subjects": []}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
    refused(token, "POST", f"{base}/rolebindings", {**binding, "roleRef": reference})


def network_rules(chart: Callable[..., list[dict[str, Any]]]) -> str:
    """The chart's, by default."""
    deployment = next(manifest for manifest in chart() if manifest["kind"] == "Deployment")
    variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    (value,) = [each["value"] for each in variables if each["name"] == "KAFKASPARK_OPERATOR_NETWORK_RULES"]
    return str(value)


@pytest.fixture
def job(
    api: ApiClient, place: Place, start_operator: Callable[..., OperatorProcess],
    chart: Callable[..., list[dict[str, Any]]],
) -> LiveJob:  # fmt: skip
    """A job that runs."""
    start_operator(network_rules=network_rules(chart)).await_leading()
    job = LiveJob(api, place.namespace)
    job.create()
    job.run(1, hold=False)
    return job


def test_drift_of_a_drivers_rights_is_repaired(job: LiveJob, api: ApiClient) -> None:
    base = f"{RBAC}/namespaces/{job.namespace}"
    role, binding = f"{base}/roles/orders-driver", f"{base}/rolebindings/orders-driver"
    rules, subjects = api.call("GET", role)["rules"], api.call("GET", binding)["subjects"]

    api.merge(role, {"rules": [*rules, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]})
    await_that("the added rule is gone", lambda: api.call("GET", role)["rules"] == rules, seconds=20)
    api.merge(role, {"rules": None})
    await_that("the rules are back", lambda: api.call("GET", role).get("rules") == rules, seconds=20)
    api.merge(binding, {"subjects": [*subjects, {"kind": "Group", "apiGroup": GROUP, "name": "everybody"}]})
    await_that("the added subject is gone", lambda: api.call("GET", binding)["subjects"] == subjects, seconds=20)
    for path in (binding, role):
        api.call("DELETE", path)
        await_that("it is there again", lambda path=path: api.get(path), seconds=20)
    assert (job.status["state"], job.status["attempt"]["id"]) == ("Running", 1)


def test_drift_of_network_policies_is_repaired(job: LiveJob, api: ApiClient) -> None:
    for role in ("driver", "executor"):
        path = f"{NETWORK_POLICIES.format(job.namespace)}/orders-{role}"
        spec = api.call("GET", path)["spec"]
        api.merge(path, {"spec": {"ingress": [{}], "podSelector": {"matchLabels": {"another": "label"}}}})
        await_that("it is as before", lambda path=path, spec=spec: api.call("GET", path)["spec"] == spec, seconds=20)
        api.call("DELETE", path)
        await_that("it is there again", lambda path=path: api.get(path), seconds=20)
    assert (job.status["state"], job.status["attempt"]["id"]) == ("Running", 1)


@pytest.fixture(params=["enabled", ""], ids=["value", "empty"])
def selected_value(request: pytest.FixtureRequest) -> str:
    """The value of the label that the selector wants."""
    return str(request.param)


@pytest.fixture
def selecting(
    place: Place, api: ApiClient, chart: Callable[..., list[dict[str, Any]]], tmp_path: Path, selected_value: str
) -> Iterator[OperatorProcess]:
    """An operator with the rights over the cluster that a selector of namespaces needs."""
    account = f"system:serviceaccount:{place.namespace}:operator"
    name = f"selecting-{place.namespace}"
    selector = f"watchNamespaceSelector.kafkaspark\\.io/jobs={selected_value}"
    for manifest in chart(selector, "rbac.aggregateClusterRoles=false"):
        kind = manifest["kind"]
        if kind == "ClusterRole":
            api.apply(f"{RBAC}/clusterroles/{name}", manifest | {"metadata": {"name": name}})
        elif kind == "ClusterRoleBinding":
            body = manifest | {"metadata": {"name": name}, "roleRef": {**manifest["roleRef"], "name": name}}
            body["subjects"] = [{"kind": "User", "apiGroup": GROUP, "name": account}]
            api.apply(f"{RBAC}/clusterrolebindings/{name}", body)
        elif kind.startswith("ValidatingAdmission") and manifest["metadata"]["name"].endswith("-operator"):
            text = json.dumps(manifest).replace("system:serviceaccount:kafkaspark-system:kafkaspark-operator", account)
            body = json.loads(text.replace("kafkaspark-system-kafkaspark-operator-operator", name))
            plural = "ies" if kind.endswith("Policy") else "ybindings"
            api.apply(f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic{plural}/{name}", body)
    with operators(place, tmp_path) as start:
        operator = start(watch_namespaces="", watch_namespace_selector=f"kafkaspark.io/jobs={selected_value}")
        operator.await_leading()
        yield operator
    for path in ("clusterrolebindings", "clusterroles"):
        api.call("DELETE", f"{RBAC}/{path}/{name}")


@pytest.mark.usefixtures("selecting")
def test_only_selected_namespaces_are_watched(
    place: Place, api: ApiClient, token: ApiClient, make_namespace: Callable[[str, str], None], selected_value: str
) -> None:
    other = f"t-{uuid.uuid4().hex[:8]}"
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": other}})
    selected = f"t-{uuid.uuid4().hex[:8]}"
    labels = {"kafkaspark.io/jobs": selected_value}
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": selected, "labels": labels}})
    first, second = LiveJob(api, other), LiveJob(api, selected)
    first.create()
    second.create()
    second.run(1, hold=False)
    assert first.pods == []
    assert first.status == {}
    for namespace in (other, "kube-system"):
        # The API server names one rule of those that refuse, and which is open: this pod breaks no other.
        driver = driver_of(replace(place, namespace=namespace))
        message = refused(token, "POST", f"/api/v1/namespaces/{namespace}/pods", driver)
        assert "the operator writes in selected namespaces only" in message
    api.merge(f"/api/v1/namespaces/{other}", {"metadata": {"labels": labels}})
    first.run(1, hold=False)


GRANTED_FOR_DRIVERS = {"use", "drive", "deletecollection"}
"""Verbs that the operator holds only to grant them."""
NOT_IN_THE_LOG = {("kafkasparkjobs/finalizers", "update")}
"""Asked for by the admission plugin OwnerReferencesPermissionEnforcement, which the API server of the tests has not."""


def granted(chart: Callable[..., list[dict[str, Any]]]) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for manifest in chart("rbac.aggregateClusterRoles=false")
        if manifest["kind"] == "Role"
        for rule in manifest["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in GRANTED_FOR_DRIVERS
    } - NOT_IN_THE_LOG


def used(kubeconfig: Path, user: str) -> set[tuple[str, str]]:
    """Resource and verb of each request of the user that the API server has allowed, by its audit log."""
    found = set()
    for line in (kubeconfig.parent / "audit.log").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["user"]["username"] != user or "objectRef" not in event:
            continue
        if event.get("responseStatus", {}).get("code", 0) == 403:
            continue
        what = event["objectRef"]
        resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
        found.add((resource, event["verb"]))
    return found


def test_each_granted_verb_is_used_and_no_other_is_asked_for(
    place: Place, api: ApiClient, kubeconfig: Path, chart: Callable[..., list[dict[str, Any]]],
    start_operator: Callable[..., OperatorProcess],
) -> None:  # fmt: skip
    """Two lives: standby, drift, failure, a taken name, no more NetworkPolicies, a finalizer, a TTL, and a load."""
    first = start_operator(network_rules=network_rules(chart))
    first.await_leading()
    job = LiveJob(api, place.namespace)
    job.create(
        restartPolicy={"successor": "Standby", "backoff": {"initialSeconds": 0}},
        sink={"transactions": {"timeoutSeconds": 0}},
        snapshots={"intervalSeconds": 3600, "count": 1},
    )
    job.run(1)
    job.await_driver(2)
    report = f"{job.config_maps_path}/{names.report_config_map(job.name)}"
    api.merge(report, {"data": {names.PREPARED_KEY: "2"}})
    policy = f"{NETWORK_POLICIES.format(job.namespace)}/orders-driver"
    api.merge(policy, {"spec": {"ingress": [{}]}})
    await_that("the policy is repaired", lambda: api.call("GET", policy)["spec"]["ingress"] != [{}])
    job.report(1, checkpoint_id=10)
    await_that("a snapshot is made", lambda: "ready" in job.status.get("snapshots", {}))
    spec = {"jobRef": {"name": job.name, "uid": job.uid()}, "trigger": "Periodic"}
    api.call(
        "POST", SNAPSHOTS.format(job.namespace),
        {"apiVersion": OWNER["apiVersion"], "kind": names.SNAPSHOT_KIND, "metadata": {"name": "before"}, "spec": spec},
    )  # fmt: skip
    await_that("the older is deleted", lambda: len(api.items(SNAPSHOTS.format(job.namespace))) == 1)
    ended = LiveJob(api, place.namespace, "ended")
    ended.create(source={"stopping": {"mode": "Latest"}}, ttlSecondsAfterFinished=0)
    ended.finish()
    await_that("the finished job is deleted", lambda: api.get(ended.path) is None)
    busy = LiveJob(api, place.namespace, "busy")
    busy.create(engine="Continuous", autoscaler={**POLICY, "dryRun": True})
    busy.run(1)
    reports(busy, MORE, lambda: "ScalingAdvised" in dict(busy.events), parallelism=2, rescales=True)
    first.stop()

    base = f"{RBAC}/namespaces/{job.namespace}"
    role, binding = f"{base}/roles/orders-driver", f"{base}/rolebindings/orders-driver"
    account = f"/api/v1/namespaces/{job.namespace}/serviceaccounts/orders-executor"
    api.merge(account, {"automountServiceAccountToken": True})
    checkpoints = f"{job.config_maps_path}/{names.checkpoints_config_map(job.name)}"
    api.merge(checkpoints, {"metadata": {"ownerReferences": None}})
    api.merge(role, {"rules": None})
    body = api.call("GET", binding)
    api.call("DELETE", binding)
    meta = {part: body["metadata"][part] for part in ("name", "labels", "ownerReferences")}
    another = {**body, "metadata": meta, "roleRef": {**body["roleRef"], "name": "another"}}
    api.call("POST", f"{base}/rolebindings", another)
    second = LiveJob(api, place.namespace, "second")
    api.call("POST", job.pods_path, pod(names.driver_pod(second.name, 1)))
    second.create()

    start_operator(deletion_seconds="5").await_leading()
    await_that("the policy is deleted", lambda: api.get(policy) is None)
    await_that("the binding is repaired", lambda: (api.get(binding) or another)["roleRef"] == body["roleRef"])
    api.merge(binding, {"subjects": None})
    await_that("the subjects are back", lambda: api.call("GET", binding).get("subjects") == body["subjects"])
    job.ends(1, None, code=137)
    job.await_deletion(1)
    job.release(1)
    job.run(2, checkpoint=12)
    await_that("the account is repaired", lambda: not api.call("GET", account)["automountServiceAccountToken"])
    job.await_driver(3)
    second.await_driver(2, hold=False)
    api.call("DELETE", job.path)
    for attempt in (2, 3):
        job.release(attempt)
    await_that("the resource is gone", lambda: api.get(job.path) is None)
    user = f"system:serviceaccount:{place.namespace}:operator"
    assert granted(chart) - used(kubeconfig, user) == set()
    assert used(kubeconfig, user) - granted(chart) == set()
