"""Each attempt has a Secret of its own, which the operator creates and never reads."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest

from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, record_name, secret_name


def secrets(operator_fixture: OperatorFixture) -> dict[str, dict[str, Any]]:
    return {place[2]: body for place, body in operator_fixture.kubernetes.objects.items() if place[0] == "Secret"}


async def test_an_attempt_has_a_secret_that_goes_with_its_config_map(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    operator_fixture = OperatorFixture(restartPolicy={"backoff": {"initialSeconds": 0}})
    values = set()
    for attempt in (1, 2, 3):
        await operator_fixture.run(attempt)
        found = secrets(operator_fixture)[secret_name(attempt)]
        claim = operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]["metadata"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": claim["name"], "uid": claim["uid"]}
        assert (found["type"], found["immutable"]) == ("Opaque", True)
        assert found["metadata"]["ownerReferences"] == [owner]
        (value,) = found["stringData"].values()
        assert len(base64.urlsafe_b64decode(value + "=")) == 32
        values.add(value)
        operator_fixture.driver_ends(attempt, None)
        await operator_fixture.settle()
        operator_fixture.wait(10)
        await operator_fixture.settle()
    assert len(values) == 3
    assert set(secrets(operator_fixture)) == {secret_name(3), secret_name(4)}
    others = [body for place, body in operator_fixture.kubernetes.objects.items() if place[0] != "Secret"]
    assert not [value for value in values if value in json.dumps(others) + caplog.text]


async def test_the_secret_is_there_before_the_driver() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    created = [name for verb, _, name in operator_fixture.kubernetes.writes if verb == "create"]
    made = [created.index(name) for name in (record_name(1), secret_name(1), "orders-1-driver")]
    assert made == sorted(made)


async def test_a_secret_that_somebody_else_made_is_reported_and_not_used() -> None:
    operator_fixture = OperatorFixture()
    foreign = ("Secret", KEY.namespace, secret_name(1))
    await operator_fixture.kubernetes.create({"kind": "Secret", "metadata": {"name": foreign[2], "namespace": "team"}})
    await operator_fixture.settle_or_refused()
    assert operator_fixture.drivers == []
    assert operator_fixture.status["reason"] == "StartFailed"
    assert f"kubectl delete secret {secret_name(1)} -n team" in operator_fixture.status["message"]
    operator_fixture.kubernetes.remove(foreign)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"], "no number is used up"


async def test_a_refused_driver_leaves_no_secret() -> None:
    operator_fixture = OperatorFixture()
    operator_fixture.kubernetes.refuse_pods = "exceeded quota"
    await operator_fixture.settle_or_refused()
    assert operator_fixture.status["reason"] == "QuotaExceeded"
    assert secrets(operator_fixture) == {}
