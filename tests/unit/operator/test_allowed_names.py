"""The administrator's lists of names: their patterns, and every place in a job that a name can be in."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.acceptance import accepted_job
from kafkasparkjob_operator.workload import JobSettings
from kafkasparkjob_operator.workload.allowed_names import AllowedNames, read_allowed_names
from sparkapp.model.errors import ConfigurationError, NameNotAllowed
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, OperatorFixture, job_body

JOB = JobIdentity("team", "orders", "job-uid")
SHA = "sha256:" + "0" * 64
R = "registry.example.com"


def settings(**lists: Any) -> JobSettings:
    return JobSettings(default_image="kafkaspark/sparkapp:9", allowed=read_allowed_names(lists, "job.allowedNames"))


@pytest.mark.parametrize(
    ("pattern", "image", "allowed"),
    [
        (f"{R}/team-*/*", f"{R}/team-a/app:1", True),
        (f"{R}/team-*/*", f"{R}/team-a/app@{SHA}", True),
        (f"{R}/team-*/*", f"{R}/team-a/deep/app:1", False),
        (f"{R}/team-*/*", f"{R}/other/app:1", False),
        (f"{R}/team-*/*", f"{R}.evil.org/team-a/app", False),
        (f"{R}/team-*/*", f"evil.org/{R}/team-a/app", False),
        (f"{R}/**", f"{R}/team-a/deep/app:1", True),
        (f"{R}/**", f"{R}/app", True),
        (f"{R}/**", R, False),
        (f"{R}/**/app", f"{R}/a/b/app:1", True),
        (f"{R}/**/app", f"{R}/a/b/other:1", False),
        (f"{R}:5000/app", f"{R}:5000/app:2", True),
        (f"{R}:5000/app", f"{R}:5001/app:2", False),
        (f"{R}:5000/app", f"{R}/app:5000", False),
        # A digest decides what is pulled, whatever the tag says.
        (f"{R}/app:1.*", f"{R}/app:1.2", True),
        (f"{R}/app:1.*", f"{R}/app:1.2@{SHA}", False),
        (f"{R}/app:1.*", f"{R}/app@{SHA}", False),
        (f"{R}/app:latest", f"{R}/app", True),
        (f"{R}/app:1", f"{R}/app", False),
        (f"{R}/app@{SHA}", f"{R}/app:7@{SHA}", True),
        (f"{R}/app@{SHA}", f"{R}/app:7", False),
        # Docker Hub's short names: a folder is no registry.
        ("team-*/app", "team-a/app:1", True),
        ("team-*/app", "docker.io/team-a/app:1", True),
        ("team-*/app", "team-a.evil.org/app", False),
        ("*/app", "localhost/app", False),
        ("*/app", "evil:80/app", False),
        ("app", "docker.io/library/app:3", True),
        ("*", "app", True),
        ("*", "team/app", False),
        ("**", "evil.org/a/b/c:1", True),
        (f"{R}/a*b*c", f"{R}/aXbYc", True),
        (f"{R}/a*a", f"{R}/a", False),
        (f"{R}/*", f"{R}/{'a' * 1024}", False),
    ],
)
def test_an_image_matches_a_pattern(pattern: str, image: str, allowed: bool) -> None:
    assert AllowedNames(general={"images": (pattern,)}).allows("team", "images", image) is allowed


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        ("team-*", "team-a", True),
        ("team-*", "my-team-a", False),
        ("*-user", "kafka-user", True),
        ("team-a", "team-a-root", False),
        ("team.a", "team-a", False),
        ("-", "anything", False),
    ],
)
def test_a_name_matches_a_pattern(pattern: str, name: str, allowed: bool) -> None:
    assert AllowedNames(general={"secrets": (pattern,)}).allows("team", "secrets", name) is allowed


def test_a_namespaces_list_replaces_the_general_one_of_its_kind() -> None:
    allowed = read_allowed_names(
        {"secrets": ["shared-*"], "configMaps": ["c"], "namespaces": {"team": {"secrets": ["own"]}}}, "x"
    )
    assert [allowed.allows("team", "secrets", name) for name in ("own", "shared-a")] == [True, False]
    assert [allowed.allows("other", "secrets", name) for name in ("own", "shared-a")] == [False, True]
    assert not allowed.allows("team", "configmaps", "d")
    assert allowed.allows("team", "persistentvolumeclaims", "any")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"pods": ["x"]}, "job.allowedNames.pods must be one of images, secrets"),
        ({"secrets": "x"}, "job.allowedNames.secrets must be a list of strings"),
        ({"secrets": [""]}, "job.allowedNames.secrets must be a list of strings"),
        ({"namespaces": []}, ""),
        ({"namespaces": ["a"]}, "job.allowedNames.namespaces must be an object"),
        ({"namespaces": {"a": []}}, "job.allowedNames.namespaces.a must be an object"),
    ],
)
def test_lists_that_cannot_be_read_are_refused(lists: dict[str, Any], message: str) -> None:
    if not message:
        assert not read_allowed_names(lists, "job.allowedNames").limits
        return
    with pytest.raises(ConfigurationError, match=message):
        read_allowed_names(lists, "job.allowedNames")


def template(role: str, **fields: Any) -> dict[str, Any]:
    container = {"name": role, **fields.pop("container", {})}
    return {role: {"podTemplate": {"spec": {"containers": [container], **fields}}}}


def volume(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "mine", **source}]


def variable(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "A", "valueFrom": {field: {"name": "foreign", "key": "k"} for field in source}}]


def kafka(**fields: Any) -> dict[str, Any]:
    return {"kafka": {"bootstrapServers": "kafka:9092", **fields}}


PASSWORD = {"secretName": "foreign", "password": "p"}
USER = {"type": "plain", "username": "u", "passwordSecret": PASSWORD}
REGISTRY: dict[str, Any] = {"topics": ["t"], "format": {"value": "avro"}}
PLACES: list[tuple[str, dict[str, Any]]] = [
    ("images", {"image": "foreign"}),
    ("secrets", {"imagePullSecrets": [{"name": "foreign"}]}),
    ("secrets", kafka(tls={}, authentication=USER)),
    ("secrets", kafka(tls={"trustedCertificates": [{"secretName": "foreign", "certificate": "c"}]})),
    ("secrets", {"source": {**REGISTRY, "schemaRegistry": {"url": "https://r", "authentication": {
        "type": "basic", "username": "u", "passwordSecret": PASSWORD}}}}),
    ("secrets", {"source": {**REGISTRY, "schemaRegistry": {"url": "https://r", "tls": {
        "trustedCertificates": [{"secretName": "foreign", "certificate": "c"}]}}}}),
    *(("secrets", {role: {"env": variable(secretKeyRef=1)}}) for role in ("driver", "executor")),
    *(("configMaps", {role: {"env": variable(configMapKeyRef=1)}}) for role in ("driver", "executor")),
    *(("secrets", template(role, container={"env": variable(secretKeyRef=1)})) for role in ("driver", "executor")),
    *(("secrets", template(role, volumes=volume(secret={"secretName": "foreign"}))) for role in ("driver", "executor")),
    *(("secrets", template(role, volumes=volume(projected={"sources": [{"secret": {"name": "foreign"}}]})))
      for role in ("driver", "executor")),
    *(("configMaps", template(role, volumes=volume(configMap={"name": "foreign"}))) for role in ("driver", "executor")),
    *(("persistentVolumeClaims", template(role, volumes=volume(persistentVolumeClaim={"claimName": "foreign"})))
      for role in ("driver", "executor")),
    *(("secrets", template(role, container={"envFrom": [{"secretRef": {"name": "foreign"}}]}))
      for role in ("driver", "executor")),
    *(("configMaps", template(role, container={"envFrom": [{"configMapRef": {"name": "foreign"}}]}))
      for role in ("driver", "executor")),
    ("configMaps", {"transform": {"python": {"function": "a:b", "configMapRef": {"name": "foreign"}}}}),
    ("secrets", {"checkpoint": {"state": {"storage": {"s3": {
        "bucket": "state", "credentials": {"secretName": "foreign"}}}}}}),
    ("persistentVolumeClaims", {"checkpoint": {"stateVolume": {"claimName": "foreign"}}}),
    ("tokenAudiences", kafka(tls={}, authentication={
        "type": "oauth", "serviceAccountToken": {"audience": "foreign", "expirationSeconds": 3600}})),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec"), PLACES)
def test_a_name_is_judged_wherever_it_is(kind: str, spec: dict[str, Any]) -> None:
    body = job_body(**spec)["spec"]
    with pytest.raises(NameNotAllowed) as caught:
        accepted_job(body, job=JOB, settings=settings(**{kind: ["mine-*"]}))
    assert "'foreign' is not allowed in namespace team" in caught.value.message
    assert caught.value.remedy.endswith(f"whose list is job.allowedNames.{kind} of the operator's chart")
    assert "kubectl edit ksj orders -n team;" in caught.value.remedy
    assert "mine-" not in f"{caught.value.message}{caught.value.remedy}"
    accepted_job(body, job=JOB, settings=settings(**{kind: ["fore*"]}))


def test_the_operators_own_objects_need_no_place_on_a_list() -> None:
    nothing = {kind: ["-"] for kind in ("secrets", "configMaps", "persistentVolumeClaims", "tokenAudiences")}
    accepted_job(job_body()["spec"], job=JOB, settings=settings(**nothing))


def test_the_default_image_is_allowed_by_default_and_not_by_its_name() -> None:
    limited = settings(images=[f"{R}/*"])
    accepted_job(job_body(image=None)["spec"], job=JOB, settings=limited)
    with pytest.raises(NameNotAllowed):
        accepted_job(job_body(image="kafkaspark/sparkapp:9")["spec"], job=JOB, settings=limited)
    with pytest.raises(NameNotAllowed, match="kafkaspark/sparkapp:8"):
        accepted_job(job_body(image=None)["spec"], job=JOB, settings=limited, recorded_image="kafkaspark/sparkapp:8")


IMAGES = settings(images=["kafkaspark/*"])


async def test_a_job_with_a_refused_name_does_not_start_and_says_so() -> None:
    fixture = OperatorFixture(image="evil.org/x:1")
    fixture.restart_operator(settings=IMAGES)
    await fixture.settle()
    assert fixture.drivers == []
    condition = fixture.kubernetes.condition(KEY, "ConfigValid")
    assert (condition["status"], condition["reason"]) == ("False", "NameNotAllowed")
    assert condition["message"] == (
        "image 'evil.org/x:1' is not allowed in namespace team; name another image: kubectl edit ksj orders -n team;"
        " or ask the administrator, whose list is job.allowedNames.images of the operator's chart"
    )
    assert "NameNotAllowed" in fixture.kubernetes.events()
    fixture.restart_operator(settings=settings(images=["evil.org/*"]))
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver"]


async def test_an_edit_to_a_refused_name_leaves_the_last_valid_spec() -> None:
    fixture = OperatorFixture()
    fixture.restart_operator(settings=IMAGES)
    await fixture.run(1)
    fixture.kubernetes.edit_job(KEY, image="evil.org/x:1")
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver"]
    fixture.driver_ends(1, FAILED)
    await fixture.settle()
    fixture.wait(1)
    await fixture.settle()
    assert fixture.drivers[-1] == "orders-2-driver"
    pod = fixture.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
    assert pod["spec"]["containers"][0]["image"] == "kafkaspark/sparkapp:1"


async def test_a_narrowed_list_leaves_the_running_attempt_and_refuses_the_next() -> None:
    fixture = OperatorFixture()
    await fixture.run(1)
    fixture.restart_operator(settings=settings(images=[f"{R}/*"]))
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver"]
    assert fixture.status["state"] == "Running"
    assert fixture.kubernetes.condition(KEY, "ConfigValid")["reason"] == "NameNotAllowed"
    fixture.driver_ends(1, DRAINED)
    await fixture.settle()
    fixture.wait(60)
    await fixture.settle()
    assert "orders-2-driver" not in fixture.drivers
    assert fixture.status["state"] == "Failed"


async def test_a_narrowed_list_activates_no_standby_driver() -> None:
    fixture = OperatorFixture(restartPolicy={"successor": "Standby"})
    await fixture.run(1)
    fixture.wait(30)
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    fixture.restart_operator(settings=settings(images=[f"{R}/*"]))
    fixture.driver_ends(1, FAILED)
    await fixture.settle()
    fixture.wait(60)
    await fixture.settle()
    assert "orders-2-driver" not in fixture.drivers
    assert fixture.status["state"] == "Failed"


async def test_the_last_attempt_of_a_deleted_job_has_no_refused_name_either() -> None:
    fixture = OperatorFixture(sink={"topic": "t", "transactions": {"timeoutSeconds": 0}})
    await fixture.run(1)
    fixture.driver_ends(1, FAILED)
    fixture.restart_operator(settings=settings(images=[f"{R}/*"]))
    fixture.kubernetes.delete_job(KEY)
    for _ in range(3):
        await fixture.settle()
        fixture.wait(10)
    assert "orders-2-driver" not in fixture.drivers
    assert "TransactionsLeftOpen" in fixture.kubernetes.events()
