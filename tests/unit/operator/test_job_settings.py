"""The administrator's defaults for jobs, and what an executor may refer to at most."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.acceptance import (
    EXECUTOR_LIMITS,
    MOST_PROJECTED,
    MOST_REFERENCES,
    accepted_job,
)
from kafkasparkjob_operator.resources.config_maps import attempt_references
from kafkasparkjob_operator.resources.driver_pod import driver_pod
from kafkasparkjob_operator.resources.executor_template import executor_pod_template
from kafkasparkjob_operator.settings import settings_from_environment
from kafkasparkjob_operator.workload import NO_SETTINGS, DesiredJob, JobSettings, read_job_settings
from sparkapp.model.errors import ConfigurationError
from tests.support.kubernetes.api_client import REPOSITORY
from tests.support.kubernetes.operator_fixture import FAILED, KEY, OperatorFixture, job_body, secret_name

JOB = JobIdentity("team", "orders", "job-uid")
DEFAULTS: dict[str, Any] = {
    "nodeSelector": {"pool": "streaming", "zone": "a"},
    "tolerations": [{"key": "streaming", "operator": "Exists"}],
    "priorityClassName": "streaming",
    "volumes": [{"name": "ca", "configMap": {"name": "corporate-ca"}}],
}


def settings(role: str, *, metadata: dict[str, Any] | None = None, **container: Any) -> JobSettings:
    mounts = [{"name": "ca", "mountPath": "/mnt/ca"}]
    spec = {**DEFAULTS, "containers": [{"name": role, "volumeMounts": mounts, **container}]}
    template = {"spec": spec, **({"metadata": metadata} if metadata else {})}
    given = {f"{role.upper()}_POD_TEMPLATE": json.dumps(template), "JOB_IMAGE_PULL_SECRETS": '["shared"]'}
    environment = {f"KAFKASPARK_OPERATOR_{name}": text for name, text in given.items()}
    return read_job_settings(settings_from_environment(environment))


def accepted(chosen: JobSettings = NO_SETTINGS, **spec: Any) -> DesiredJob:
    return accepted_job(job_body(**spec)["spec"], job=JOB, settings=chosen)


def pod_of(role: str, desired: DesiredJob) -> dict[str, Any]:
    if role == "driver":
        return driver_pod(JOB, desired, claim_uid="claim", attempt=3)
    return executor_pod_template(JOB, desired, attempt=3)


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_default_is_in_the_pods_of_its_role_alone(role: str) -> None:
    desired = accepted(settings(role))
    spec = pod_of(role, desired)["spec"]
    assert {name: spec[name] for name in DEFAULTS if name != "volumes"}.items() <= DEFAULTS.items()
    assert spec["volumes"][-1] == DEFAULTS["volumes"][0]
    assert spec["containers"][0]["volumeMounts"][-1] == {"name": "ca", "mountPath": "/mnt/ca"}
    (other,) = {"driver", "executor"} - {role}
    assert "nodeSelector" not in pod_of(other, desired)["spec"]


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_the_jobs_own_fields_take_precedence(role: str) -> None:
    template = {"spec": {"nodeSelector": {"zone": "b"}, "tolerations": [], "priorityClassName": "low"}}
    env = [{"name": "A", "value": "default"}, {"name": "B", "value": "default"}, {"name": "C", "value": "default"}]
    mine = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}], "podTemplate": template}
    template["spec"]["containers"] = [{"name": role, "env": [{"name": "B", "value": "mine"}]}]
    spec = pod_of(role, accepted(settings(role, env=env), **{role: mine}))["spec"]
    assert spec["nodeSelector"] == {"pool": "streaming", "zone": "b"}
    assert (spec["tolerations"], spec["priorityClassName"]) == ([], "low")
    variables = {variable["name"]: variable for variable in spec["containers"][0]["env"]}
    assert variables["A"] == mine["env"][0], "no second kind of value next to the job's"
    assert (variables["B"]["value"], variables["C"]["value"]) == ("mine", "default")


def test_pull_secrets_are_added_and_granted_to_the_driver() -> None:
    desired = accepted(settings("executor"), imagePullSecrets=[{"name": "own"}, {"name": "shared"}])
    assert pod_of("driver", desired)["spec"]["imagePullSecrets"] == [{"name": "shared"}, {"name": "own"}]
    granted = attempt_references(JOB, desired, attempt=3)
    assert granted.secrets == (secret_name(3), "own", "shared")
    assert granted.configmaps == ("corporate-ca",)


def user(**fields: Any) -> JobSettings:
    environment = {"KAFKASPARK_OPERATOR_JOB_POD_SECURITY_CONTEXT": json.dumps(fields)}
    return read_job_settings(settings_from_environment(environment))


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_the_platform_may_choose_user_and_groups(role: str) -> None:
    image_user = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    never_root = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for chosen, expected in (
        (NO_SETTINGS, image_user),
        (user(runAsUser=None), {}),
        (user(), {}),
        (user(runAsUser=1000670000, fsGroup=5), {"runAsUser": 1000670000, "fsGroup": 5}),
    ):
        assert pod_of(role, accepted(chosen))["spec"]["securityContext"] == {**expected, **never_root}


@pytest.mark.parametrize("fields", [{"runAsUser": 0}, {"fsGroup": "5"}, {"runAsNonRoot": True}, {"runAsGroup": True}])
def test_no_setting_makes_a_job_root(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"job\.podSecurityContext: "):
        user(**fields)


@pytest.mark.parametrize(
    ("name", "template", "message"),
    [
        ("DRIVER", {"spec": {"hostNetwork": True}}, "job.driver.podTemplate.spec.hostNetwork is refused"),
        ("EXECUTOR", {"spec": {"initContainers": []}}, "job.executor.podTemplate.spec.initContainers is refused"),
    ],
)
def test_a_default_obeys_the_rules_of_templates(name: str, template: dict[str, Any], message: str) -> None:
    environment = {f"KAFKASPARK_OPERATOR_{name}_POD_TEMPLATE": json.dumps(template)}
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read_job_settings(settings_from_environment(environment))


async def test_a_new_default_restarts_nothing_and_is_in_the_next_attempt() -> None:
    fixture = OperatorFixture()
    await fixture.run(1)
    fixture.restart_operator(settings=settings("driver"))
    await fixture.settle()
    fixture.kubernetes.edit_job(KEY, restartPolicy={"resetAfterSeconds": 60})
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver"]
    assert fixture.status["state"] == "Running"
    fixture.driver_ends(1, FAILED)
    await fixture.settle()
    fixture.wait(1)
    await fixture.settle()
    pod = fixture.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
    assert pod["spec"]["nodeSelector"] == DEFAULTS["nodeSelector"]


def executor(**fields: Any) -> dict[str, Any]:
    return {"executor": {"podTemplate": {"spec": fields}}}


def volumes(count: int, **sources: dict[str, str]) -> list[dict[str, Any]]:
    """Volumes of one kind: the field that names the object, and the beginning of its name."""
    ((kind, source),) = sources.items()
    ((field, name),) = source.items()
    return [{"name": f"v-{number}", kind: {field: f"{name}{number}"}} for number in range(count)]


def keys(count: int) -> list[dict[str, Any]]:
    reference = {"name": "one", "key": "k"}
    return [{"name": f"K{number}", "valueFrom": {"secretKeyRef": reference}} for number in range(count)]


def metadata(count: int, value: str) -> dict[str, Any]:
    annotations = {f"a{number}": value for number in range(count)}
    return {"executor": {"podTemplate": {"metadata": {"annotations": annotations}}}}


CLAIM = {"claimName": "claim"}
LIMITS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (executor(volumes=volumes(16, secret={"secretName": "s"})),
     executor(volumes=volumes(17, secret={"secretName": "s"})), "the executors refer to 17 Secrets (s0, s1, s10, "),
    (executor(volumes=volumes(4, configMap={"name": "c"})), executor(volumes=volumes(5, configMap={"name": "c"})),
     "the executors refer to 5 ConfigMaps (c0, c1, c2, c3, c4), and at most 4 are possible; put what they have into 4"),
    (executor(volumes=[{"name": f"v{n}", "persistentVolumeClaim": CLAIM} for n in range(2)]),
     executor(volumes=[{"name": f"v{n}", "persistentVolumeClaim": CLAIM} for n in range(3)]),
     "the executors refer to 3 PersistentVolumeClaims (claim, claim, claim), and at most 2 are possible"),
    ({"executor": {"env": keys(64)}}, {"executor": {"env": keys(65)}},
     "the executors have 65 references to Secrets, and at most 64 are possible; mount the object as a volume"),
    (executor(volumes=[{"name": f"v{n}", "projected": {"sources": []}} for n in range(4)]),
     executor(volumes=[{"name": f"v{n}", "projected": {"sources": []}} for n in range(5)]),
     "the executors have 5 projected volumes, and at most 4 are possible"),
    (metadata(32, "1"), metadata(33, "1"), "the executors have 33 labels, annotations, node "),
    (metadata(1, "x" * 8170), metadata(1, "x" * 8192), "the executors have 1 labels, annotations, node "),
]  # fmt: skip


@pytest.mark.parametrize(("most", "more", "message"), LIMITS, ids=[message[:40] for *_, message in LIMITS])
def test_what_the_admission_policy_would_refuse_is_refused_before(
    most: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    accepted(**most)
    with pytest.raises(ConfigurationError) as caught:
        accepted(**more)
    assert f"{caught.value.message}; {caught.value.remedy}".startswith(message)


def test_pull_secrets_count_and_a_driver_has_no_limit() -> None:
    full = volumes(16, secret={"secretName": "s"})
    accepted(driver={"podTemplate": {"spec": {"volumes": volumes(17, secret={"secretName": "s"})}}})
    with pytest.raises(ConfigurationError, match="17 Secrets"):
        accepted(imagePullSecrets=[{"name": "pull"}], **executor(volumes=full))


def test_the_limits_are_the_policys() -> None:
    policy = (REPOSITORY / "charts/kafkaspark-operator/templates/driver-policy.yaml").read_text(encoding="utf-8")
    declared = {name: int(number) for name, number in re.findall(r"\{\{- \$(\w+) := (\d+) \}\}", policy)}
    assert declared == {
        "secrets": EXECUTOR_LIMITS["secrets"], "configMaps": EXECUTOR_LIMITS["configmaps"],
        "claims": EXECUTOR_LIMITS["persistentvolumeclaims"], "audiences": EXECUTOR_LIMITS["audiences"],
        "projected": MOST_PROJECTED,
    }  # fmt: skip
    for names in ("everySecret", "everyConfigMap"):
        assert f"variables.{names}.size() <= {MOST_REFERENCES + 1}" in policy


@pytest.mark.parametrize("engine", ["Continuous", "Auto"])
def test_subtasks_without_a_place_are_refused_where_all_run_at_once(engine: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        accepted(engine=engine, parallelism=5, executor={"instances": 2, "cores": 2})
    assert caught.value.message == (
        "spec.executor.instances: 2 executors with 2 cores have no place for 5 subtasks,"
        " which the continuous engine runs at the same time"
    )
    assert caught.value.remedy == "remove spec.executor.instances, or set it to at least 3, or set engine: MicroBatch"


def test_a_setting_that_a_query_would_lose_is_refused() -> None:
    setting = "spark.sql.jsonGenerator.ignoreNullFields"
    job = {"transform": {"sql": {"query": "SELECT key, value FROM source"}}, "sparkConf": {setting: "false"}}
    with pytest.raises(ConfigurationError, match=r"leaves out null fields in the JSON of a query") as caught:
        accepted(engine="Auto", **job)
    assert caught.value.remedy == "remove it, or set engine: MicroBatch"
    accepted(**job)
    accepted(engine="Continuous", **job | {"sparkConf": {setting: "true"}})


def test_micro_batches_take_turns_and_a_default_has_room() -> None:
    accepted(parallelism=5, executor={"instances": 2, "cores": 2})
    accepted(engine="Auto", parallelism=5, executor={"instances": 1}, transform={"sql": {"query": "SELECT 1"}})
    accepted(engine="Continuous", parallelism=4, executor={"instances": 2, "cores": 2})
    accepted(engine="Continuous", parallelism=5, executor={"cores": 2})
