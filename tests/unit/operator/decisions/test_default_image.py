"""A job without ``spec.image`` runs the operator's default image of the time at which its attempt starts (ADR 34)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkasparkjob_operator.resources.config_maps import RESOURCE_SPEC_KEY
from kafkasparkjob_operator.workload import JobSettings
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, OperatorFixture, record_name

OLD, NEW = "kafkaspark/sparkapp:1", "kafkaspark/sparkapp:2"


@pytest.fixture
def operator_fixture() -> OperatorFixture:
    """A job without an image, on an operator whose default is :data:`OLD`."""
    made = OperatorFixture(image=None)
    made.restart_operator(settings=JobSettings(default_image=OLD))
    return made


def image_of(operator_fixture: OperatorFixture, attempt: int) -> Any:
    pod = operator_fixture.kubernetes.objects["Pod", KEY.namespace, f"orders-{attempt}-driver"]
    return pod["spec"]["containers"][0]["image"]


def record_of(operator_fixture: OperatorFixture, attempt: int) -> Any:
    return operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]["data"]


async def test_the_attempt_and_its_record_have_the_default_image(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    assert image_of(operator_fixture, 1) == OLD
    assert json.loads(record_of(operator_fixture, 1)[names.SPARK_CONF_KEY])["spark.kubernetes.container.image"] == OLD
    assert json.loads(record_of(operator_fixture, 1)[RESOURCE_SPEC_KEY])["defaultImage"] == OLD
    events = [body for (kind, _, _), body in operator_fixture.kubernetes.objects.items() if kind == "Event"]
    assert f"image {OLD}" in next(event["message"] for event in events if event["reason"] == "Submitted")


async def test_an_upgrade_of_the_operator_leaves_the_running_attempt_alone(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.restart_operator(settings=JobSettings(default_image=NEW))
    await operator_fixture.settle()
    operator_fixture.kubernetes.edit_job(KEY, restartPolicy={"resetAfterSeconds": 60})
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["state"] == "Running"


async def test_the_next_attempt_takes_the_default_of_its_time(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.restart_operator(settings=JobSettings(default_image=NEW))
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(1)
    await operator_fixture.settle()
    assert image_of(operator_fixture, 2) == NEW


async def test_an_image_of_the_resource_is_used_and_a_change_to_it_restarts_the_job(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, image=OLD)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"], "the same image under its name"
    operator_fixture.kubernetes.edit_job(KEY, image=NEW)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert image_of(operator_fixture, 2) == NEW


async def test_without_an_image_and_a_default_the_job_says_what_to_set() -> None:
    operator_fixture = OperatorFixture(image=None)
    await operator_fixture.settle()
    assert operator_fixture.drivers == []
    message = operator_fixture.kubernetes.condition(KEY, "ConfigValid")["message"]
    assert message == (
        "spec.image is missing: the operator has no default job image; set spec.image, or job.image.repository of the"
        " operator's chart"
    )
