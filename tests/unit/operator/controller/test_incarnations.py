"""A resource that is recreated under its name: no object of an attempt has a name that the deleted resource's had.

A kubelet finds immutable ConfigMaps and Secrets by name and may keep them longer than Kubernetes does.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.decisions.standby import STANDBY_AFTER_SECONDS
from sparkapp.model import names
from sparkapp.model.encoding.modules_digest import digest_of_modules
from sparkapp.model.job.codec import decode_job
from tests.support.fakes.kubernetes import GONE_BY, GRACE_SECONDS
from tests.support.kubernetes.operator_fixture import (
    DRAINED,
    KEY,
    UID,
    OperatorFixture,
    job_body,
    record_name,
    secret_name,
)

NEXT = "uid-of-the-next-resource"


def recreated(operator_fixture: OperatorFixture, *, stay: frozenset[str] = frozenset(), **spec: Any) -> None:
    """Deletes the resource with all that it owns, and creates it again with another UID.

    :param stay: kinds that Kubernetes has not collected yet; pods are being deleted.
    """
    kubernetes = operator_fixture.kubernetes
    for place in [place for place in kubernetes.objects if place[0] not in {"Event", names.KIND, *stay}]:
        kubernetes.remove(place)
    for pod in kubernetes.pods(KEY, names.ROLE_DRIVER):
        pod["metadata"] |= {"deletionTimestamp": GONE_BY, "deletionGracePeriodSeconds": GRACE_SECONDS}
    body = job_body(**spec)
    body["metadata"]["uid"] = NEXT
    kubernetes.remove((names.KIND, KEY.namespace, KEY.name))
    kubernetes.add_job(body)


def immutable(operator_fixture: OperatorFixture) -> set[tuple[str, str]]:
    return {
        (kind, name) for (kind, _, name), body in operator_fixture.kubernetes.objects.items() if body.get("immutable")
    }


async def test_no_name_of_an_immutable_object_is_used_again() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    before = immutable(operator_fixture)
    revision = operator_fixture.status["attempt"]["revision"]
    assert before == {("ConfigMap", record_name(1)), ("ConfigMap", revision), ("Secret", secret_name(1))}
    recreated(operator_fixture, sink={"topic": "another"})
    await operator_fixture.settle()
    after = immutable(operator_fixture)
    assert len(after) == 3
    assert not before & after

    driver = operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-1-driver"]
    mounted = {volume["name"]: volume for volume in driver["spec"]["volumes"]}
    name = mounted["job"]["configMap"]["name"]
    data = operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, name]["data"]
    job = decode_job(data[names.JOB_KEY])
    assert (job.uid, job.attempt, job.spec.sink.topic) == (NEXT, 1, "another")
    template = yaml.safe_load(data[names.EXECUTOR_POD_TEMPLATE_KEY])["spec"]["volumes"]
    secrets = {volume["secret"]["secretName"] for volume in (*template, mounted["spark-secret"]) if "secret" in volume}
    assert secrets == {names.spark_secret(KEY.name, NEXT, 1)}


def as_an_earlier_operator_named_it(operator_fixture: OperatorFixture, attempt: int) -> tuple[str, str, str]:
    """Renames the attempt's ConfigMap; returns its place."""
    objects = operator_fixture.kubernetes.objects
    body = objects.pop(("ConfigMap", KEY.namespace, record_name(attempt)))
    body["metadata"]["name"] = f"{KEY.name}-{attempt}-job"
    place = ("ConfigMap", KEY.namespace, body["metadata"]["name"])
    objects[place] = body
    return place


async def test_an_attempt_of_an_earlier_operator_is_adopted_with_its_config_map() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    place = as_an_earlier_operator_named_it(operator_fixture, 1)
    operator_fixture.restart_operator()
    operator_fixture.kubernetes.status(KEY)["attempt"].pop("driverPodUID")
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["attempt"]["driverPodUID"], "recognized by its claim"
    assert operator_fixture.kubernetes.events(warning=True) == []

    for attempt in (1, 2):
        operator_fixture.kubernetes.edit_job(KEY, parallelism=2 + attempt)
        await operator_fixture.settle()
        operator_fixture.checkpoint(attempt, attempt * 10 + 1, drained=True)
        operator_fixture.driver_ends(attempt, DRAINED)
        await operator_fixture.run(attempt + 1)
        assert (place in operator_fixture.kubernetes.objects) == (attempt == 1)
    assert operator_fixture.drivers == ["orders-3-driver"]
    assert operator_fixture.status["restarts"]["total"] == 0


async def test_a_claim_of_an_earlier_operator_is_withdrawn() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    operator_fixture.checkpoint(1, 11, drained=True)
    place = as_an_earlier_operator_named_it(operator_fixture, 1)
    body = operator_fixture.kubernetes.objects[place]
    claim = {**body, "metadata": {**body["metadata"], "name": "orders-2-job", "uid": "uid-of-the-claim"}}
    claim["metadata"]["labels"] = {**claim["metadata"]["labels"], names.LABEL_ATTEMPT: "2"}
    operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, "orders-2-job"] = claim
    operator_fixture.restart_operator()
    operator_fixture.driver_ends(1, DRAINED)
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-3-driver"]
    assert ("ConfigMap", KEY.namespace, "orders-2-job") not in operator_fixture.kubernetes.objects


@pytest.mark.parametrize("uid", [UID, NEXT, ""])
def test_the_names_fit_and_have_the_uid(uid: str) -> None:
    job = "j" * 45
    for name in (names.attempt_config_map(job, uid, 99_999_999), names.spark_secret(job, uid, 99_999_999)):
        assert len(name) <= names.MAX_OBJECT_NAME
        assert names.is_object_name(name)
    assert len({names.incarnation(each) for each in (UID, NEXT, "")}) == 3


MODULES = {"transform": {"python": {"function": "a:b", "configMapRef": {"name": "code"}}}}


def put_modules(operator_fixture: OperatorFixture, text: str) -> None:
    operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, "code"] = {
        "kind": "ConfigMap", "metadata": {"name": "code", "namespace": KEY.namespace}, "data": {"a.py": text},
    }  # fmt: skip


async def test_an_attempt_records_the_modules_of_its_start() -> None:
    operator_fixture = OperatorFixture(**MODULES)
    put_modules(operator_fixture, "one")
    await operator_fixture.run(1)
    put_modules(operator_fixture, "two")
    await operator_fixture.settle()
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.run(2)
    place = "ConfigMap", KEY.namespace
    found = [operator_fixture.kubernetes.objects[*place, record_name(number)]["data"] for number in (1, 2)]
    digests = [digest_of_modules({"a.py": text}) for text in (b"one", b"two")]
    assert [data[names.MODULES_KEY] for data in found] == digests


async def test_without_a_config_map_there_is_nothing_to_compare() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.settle()
    data = operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, record_name(1)]["data"]
    assert names.MODULES_KEY not in data


@pytest.mark.parametrize("restarted", [False, True], ids=["operator runs", "operator was away"])
@pytest.mark.parametrize("spec", [{}, {"restartPolicy": {"successor": "Standby"}}], ids=["alone", "with a standby"])
async def test_the_next_resource_waits_until_the_pods_of_the_deleted_are_gone(
    spec: dict[str, Any], restarted: bool
) -> None:
    operator_fixture = OperatorFixture(**spec)
    await operator_fixture.run(1)
    operator_fixture.wait(STANDBY_AFTER_SECONDS + 1)
    operator_fixture.report(1, checkpoint_id=10)
    await operator_fixture.settle()
    before = list(operator_fixture.kubernetes.driver_attempts)
    assert before == ([1, 2] if spec else [1])

    recreated(operator_fixture, stay=frozenset({"Pod"}), **spec)
    if restarted:
        operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == before
    assert operator_fixture.status["reason"] == "WaitingForPods"
    for pod in operator_fixture.kubernetes.pods(KEY, names.ROLE_DRIVER):
        assert pod["metadata"]["annotations"].get(names.ANNOTATION_TURN) != names.TURN_GIVEN
        operator_fixture.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [*before, 1]
    assert operator_fixture.status["attempt"]["id"] == 1


async def test_a_suspended_resource_takes_nothing_over_when_it_resumes() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    recreated(operator_fixture, suspend=True)
    await operator_fixture.settle()
    assert (operator_fixture.drivers, operator_fixture.status["state"]) == ([], "Suspended")
    operator_fixture.kubernetes.edit_job(KEY, suspend=False)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 1
    place = "ConfigMap", KEY.namespace, names.attempt_config_map(KEY.name, NEXT, 1)
    assert decode_job(operator_fixture.kubernetes.objects[place]["data"][names.JOB_KEY]).uid == NEXT


async def test_state_and_report_that_are_not_collected_yet_are_waited_for() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    recreated(operator_fixture, stay=frozenset({"ConfigMap"}))
    await operator_fixture.settle_or_refused()
    assert (operator_fixture.drivers, operator_fixture.status["reason"]) == ([], "AwaitingCollection")
    for place in [place for place in operator_fixture.kubernetes.objects if place[0] == "ConfigMap"]:
        operator_fixture.kubernetes.remove(place)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 1
    assert "checkpoint" not in operator_fixture.status
