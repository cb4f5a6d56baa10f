"""What a live look reads: by name where the name is known, and nothing large of what others made."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.controller.live_look import ATTEMPTS_READ, look_at
from kafkasparkjob_operator.identity import ROLE_ATTEMPT, ROLE_REPORT
from kafkasparkjob_operator.observation.observation import live_observation
from sparkapp.model import names
from tests.support.fakes.kubernetes import TIME
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, record_name


def forge(operator_fixture: OperatorFixture, name: str, attempt: int, *, role: str, uid: str = "job-uid") -> None:
    """A ConfigMap with the job's labels that the operator did not make."""
    operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, name] = {
        "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": KEY.namespace, "uid": f"uid-of-{name}", "creationTimestamp": TIME,
            "labels": names.labels(KEY.name, attempt=attempt, role=role),
            "ownerReferences": [{"kind": names.KIND, "name": KEY.name, "uid": uid}],
        },
        "data": {"junk": "x" * (1 << 20), names.REPORT_KEY: "{}"},
    }  # fmt: skip


async def test_a_thousand_forged_attempts_are_metadata_and_the_own_attempt_is_read() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    for number in range(100, 1100):
        forge(operator_fixture, record_name(number), number, role=ROLE_ATTEMPT)
    found = await look_at(operator_fixture.kubernetes, KEY)
    assert found is not None
    read = {each["metadata"]["name"] for each in found.config_maps if "data" in each}
    newest = {record_name(number) for number in range(1100 - ATTEMPTS_READ, 1100)}
    own = {
        record_name(1),
        names.state_config_map(KEY.name),
        names.report_config_map(KEY.name),
    }
    assert read == own | newest
    live = live_observation(found.body, found.pods, found.config_maps).live
    assert live is not None
    assert next(record for record in live.records if record.attempt == 1).spec


async def test_an_attempt_of_another_resource_is_not_read() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    name = names.attempt_config_map(KEY.name, "another-uid", 7)
    forge(operator_fixture, name, 7, role=ROLE_ATTEMPT, uid="another-uid")
    found = await look_at(operator_fixture.kubernetes, KEY)
    assert found is not None
    (other,) = (each for each in found.config_maps if each["metadata"]["name"] == name)
    assert "data" not in other
    assert 7 not in live_observation(found.body, found.pods, found.config_maps).claims


@pytest.mark.parametrize("uid", ["another-uid", ""])
async def test_a_report_that_the_resource_does_not_own_says_nothing(uid: str) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    report: dict[str, Any] = operator_fixture.kubernetes.objects[
        "ConfigMap", KEY.namespace, names.report_config_map(KEY.name)
    ]
    found = await look_at(operator_fixture.kubernetes, KEY)
    assert found is not None
    assert live_observation(found.body, found.pods, found.config_maps).report is not None
    report["metadata"]["ownerReferences"] = [{"kind": names.KIND, "name": KEY.name, "uid": uid}] if uid else []
    found = await look_at(operator_fixture.kubernetes, KEY)
    assert found is not None
    assert live_observation(found.body, found.pods, found.config_maps).report is None


async def test_a_config_map_with_the_labels_of_a_report_is_not_read() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    forge(operator_fixture, "another-name", 1, role=ROLE_REPORT)
    found = await look_at(operator_fixture.kubernetes, KEY)
    assert found is not None
    assert "another-name" not in {each["metadata"]["name"] for each in found.config_maps}
