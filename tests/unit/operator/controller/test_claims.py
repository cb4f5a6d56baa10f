"""An attempt's ConfigMap claims its number: without a driver it is its claimant's at first, and withdrawn when old."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.attempts import AWAIT_CLAIMANT
from kafkasparkjob_operator.identity import ANNOTATION_CLAIM
from kafkasparkjob_operator.kubernetes.port import ClusterError
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, record_name

CLAIM = ("ConfigMap", KEY.namespace, record_name(1))


@pytest.fixture
async def claimed(monkeypatch: pytest.MonkeyPatch) -> OperatorFixture:
    """An operator stands still, or dies, between its claim and its driver."""
    operator_fixture = OperatorFixture()
    create = operator_fixture.kubernetes.create

    async def create_no_pod(manifest: Any) -> Any:
        if manifest["kind"] == "Pod":
            msg = "stands still"
            raise ClusterError(msg)
        return await create(manifest)

    with monkeypatch.context() as patched:
        patched.setattr(operator_fixture.kubernetes, "create", create_no_pod)
        with pytest.raises(ClusterError, match="stands still"):
            await operator_fixture.look()
    assert CLAIM in operator_fixture.kubernetes.objects
    operator_fixture.restart_operator()
    return operator_fixture


async def test_a_young_claim_is_somebodys(claimed: OperatorFixture) -> None:
    claimed.wait(AWAIT_CLAIMANT - 1)
    await claimed.settle()
    assert claimed.drivers == []
    assert CLAIM in claimed.kubernetes.objects


async def test_an_old_claim_is_withdrawn_before_the_next_attempt_starts(claimed: OperatorFixture) -> None:
    claimed.wait(AWAIT_CLAIMANT)
    await claimed.settle()
    assert claimed.drivers == ["orders-2-driver"]
    assert CLAIM not in claimed.kubernetes.objects
    writes = claimed.kubernetes.writes
    assert writes.index(("delete", "ConfigMap", record_name(1))) < writes.index(("create", "Pod", "orders-2-driver"))


async def test_a_claim_from_the_future_is_not_waited_for(claimed: OperatorFixture) -> None:
    """The API server's clock is ahead: waiting could take for ever."""
    claimed.wait(-3600)
    await claimed.settle()
    assert claimed.drivers == ["orders-2-driver"]


async def test_a_claim_whose_driver_comes_is_left_to_it(claimed: OperatorFixture) -> None:
    """The claimant continues after all."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "orders-1-driver",
            "namespace": KEY.namespace,
            "labels": {
                "kafkaspark.io/job": KEY.name,
                "kafkaspark.io/attempt": "1",
                "kafkaspark.io/role": "driver",
            },
            "annotations": {ANNOTATION_CLAIM: claimed.kubernetes.objects[CLAIM]["metadata"]["uid"]},
            "ownerReferences": [{"kind": "KafkaSparkJob", "uid": claimed.kubernetes.job(KEY)["metadata"]["uid"]}],
        },
    }
    await claimed.kubernetes.create(pod)
    claimed.wait(AWAIT_CLAIMANT)
    await claimed.settle()
    assert claimed.drivers == ["orders-1-driver"]
    assert claimed.status["attempt"]["id"] == 1
