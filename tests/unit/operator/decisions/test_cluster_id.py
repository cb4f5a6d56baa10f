"""Default names at Kafka carry the id of the Kubernetes cluster, for new jobs alone (ADR 99)."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from kafkasparkjob_operator.decisions.checks.prefix_needs import need_of
from kafkasparkjob_operator.settings import Settings, settings_from_environment
from kafkasparkjob_operator.workload import JobSettings, read_job_settings
from sparkapp.cli.target import _resource
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.codec import decode_job
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, OperatorFixture, job_body, record_name

HERE, THERE = JobSettings(cluster_id="eu1"), JobSettings(cluster_id="us1")
PLAIN = f"{KEY.namespace}.{KEY.name}"
NEW = f"{PLAIN}.eu1"


def names_of(operator: OperatorFixture, attempt: int) -> set[str]:
    data = operator.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]["data"]
    spec = decode_job(data[names.JOB_KEY]).spec
    return {spec.source.group_id, spec.sink.transactional_id_prefix}


async def started(settings: JobSettings | None, **spec: Any) -> OperatorFixture:
    operator = OperatorFixture(**spec)
    if settings is not None:
        operator.restart_operator(settings=settings)
    await operator.run()
    return operator


async def next_attempt(operator: OperatorFixture) -> None:
    operator.kubernetes.edit_job(KEY, restartNonce=1)
    await operator.settle()
    operator.checkpoint(1, 11, drained=True)
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]


@pytest.mark.parametrize(
    ("first", "then", "found"), [(None, HERE, PLAIN), (HERE, THERE, NEW), (HERE, None, NEW), (HERE, HERE, NEW)]
)
async def test_a_job_keeps_the_names_of_its_first_attempt(
    first: JobSettings | None, then: JobSettings | None, found: str
) -> None:
    operator = await started(first)
    assert names_of(operator, 1) == {found}
    assert operator.status.get("clusterId", "") == ("eu1" if first else "")
    operator.restart_operator(settings=then or JobSettings())
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"], "another id restarts nothing"
    await next_attempt(operator)
    assert names_of(operator, 2) == {found}
    assert operator.status["transactions"]["prefix"] == found


@pytest.mark.parametrize(("first", "found"), [(None, PLAIN), (HERE, NEW)])
@pytest.mark.parametrize("running", [True, False])
async def test_a_lost_status_changes_no_names(first: JobSettings | None, found: str, running: bool) -> None:
    operator = await started(first)
    operator.kubernetes.job(KEY)["status"] = {}
    if not running:
        operator.checkpoint(1, 11)
        operator.kubernetes.remove(("Pod", KEY.namespace, "orders-1-driver"))
    operator.restart_operator(settings=HERE)
    await operator.settle()
    if running:
        await next_attempt(operator)
    assert operator.status.get("clusterId", "") == ("eu1" if first else "")
    assert names_of(operator, 2) == {found}


async def test_names_of_the_resource_stay_as_they_are() -> None:
    operator = await started(
        HERE, source={"topics": ["a"], "groupId": "team.own"},
        sink={"topic": "b", "transactions": {"idPrefix": "team.own"}},
    )  # fmt: skip
    assert names_of(operator, 1) == {"team.own"}


def test_a_job_that_has_started_needs_its_own_names_and_a_new_job_those_with_the_id() -> None:
    body = job_body()
    for status, found in (
        ({}, NEW),
        ({"attempt": {"id": 3}}, PLAIN),
        ({"attempt": {"id": 3}, "clusterId": "eu1"}, NEW),
    ):
        need = need_of({**body, "status": status}, HERE)
        assert need is not None
        assert need.prefix == need.group == found
        other = need_of({**body, "status": status}, THERE)
        assert other is not None
        assert (other.prefix == need.prefix) == bool(status)


def test_commands_use_the_names_of_the_status(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({**job_body(), "status": {"clusterId": "eu1"}}))
    spec, *_ = _resource(Namespace(resource=file, namespace="", job="", context=None))
    assert spec.source.group_id == spec.sink.transactional_id_prefix == NEW


@pytest.mark.parametrize("text", ["EU", "eu-1", "a" * 17, "eu.1"])
def test_an_id_that_names_could_not_have_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"operator\.clusterId"):
        read_job_settings(Settings(cluster_id=text))
    assert settings_from_environment({"KAFKASPARK_OPERATOR_CLUSTER_ID": "eu1"}).cluster_id == "eu1"
