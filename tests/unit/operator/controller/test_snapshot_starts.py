"""The operator puts the checkpoint of a snapshot into the description of the attempt that begins at it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.retained import retained
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.job.codec import decode_job
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, UID, OperatorFixture, record_name
from tests.support.kubernetes.state_fixture import document

TEXT = encode_retained(retained(replace(document("another"), committables=())))


def add_snapshot(operator: OperatorFixture, *, text: str = TEXT, uid: str = "", **status: Any) -> None:
    meta = {"namespace": KEY.namespace, "name": "before-0-snapshot", "uid": "map-uid", "resourceVersion": "1"}
    operator.kubernetes.objects["ConfigMap", KEY.namespace, "before-0-snapshot"] = {
        "kind": "ConfigMap", "metadata": meta, "data": {names.SNAPSHOT_KEY: text},
    }  # fmt: skip
    kept = {"name": "before-0-snapshot", "uid": uid or "map-uid"}
    operator.kubernetes.objects[names.SNAPSHOT_KIND, KEY.namespace, "before"] = {
        "kind": names.SNAPSHOT_KIND,
        "metadata": {"namespace": KEY.namespace, "name": "before", "uid": "snapshot-uid", "resourceVersion": "1"},
        "status": {"state": "Ready", "jobUID": "another", "configMap": kept, **status},
    }


def described(operator: OperatorFixture, attempt: int) -> dict[str, str]:
    body = operator.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]
    return dict(decode_job(body["data"][names.JOB_KEY]).snapshots)


async def test_a_first_start_gets_the_checkpoint_and_a_later_start_does_not() -> None:
    operator = OperatorFixture(startFrom={"snapshot": "before"})
    add_snapshot(operator)
    await operator.run()
    assert described(operator, 1) == {"before": TEXT}
    del operator.kubernetes.objects[names.SNAPSHOT_KIND, KEY.namespace, "before"]
    operator.driver_ends(1, code=137)
    await operator.settle()
    operator.wait(60)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    assert described(operator, 2) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (None, "the namespace has no KafkaSparkSnapshot before: kubectl get kss -n team lists them"),
        ({"state": "Pending", "message": "no checkpoint yet"}, "snapshot before is not Ready: no checkpoint yet"),
        ({"uid": "replaced"}, "ConfigMap before-0-snapshot of snapshot before was deleted"),
        ({"text": "{"}, "snapshot before: the checkpoint of the snapshot cannot be used"),
        ({"jobUID": "forged"}, "it belongs to the job with UID 'another'"),
    ],
)
async def test_a_job_waits_for_its_snapshot_and_says_so(changes: dict[str, Any] | None, message: str) -> None:
    operator = OperatorFixture(startFrom={"snapshot": "before"})
    if changes is not None:
        add_snapshot(operator, **changes)
    await operator.settle_or_refused()
    assert operator.drivers == []
    assert (operator.status["state"], operator.status["reason"]) == ("Pending", "SnapshotNotReady")
    assert message in operator.status["message"]
    assert ("ConfigMap", KEY.namespace, record_name(1)) not in operator.kubernetes.objects
    add_snapshot(operator)
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"]


async def test_a_restore_of_a_snapshot_is_one_drain_and_one_start() -> None:
    operator = OperatorFixture()
    await operator.run()
    add_snapshot(operator)
    operator.kubernetes.edit_job(KEY, restore={"snapshot": "before"})
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"], "without a higher nonce nothing happens"
    operator.kubernetes.edit_job(KEY, restore={"snapshot": "before", "nonce": 1})
    await operator.settle()
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    assert described(operator, 2) == {"before": TEXT}
    operator.kubernetes.pod_runs(names.driver_pod(KEY.name, 2))
    served = replace(document(UID), attempt=2, committables=(), redeploy_nonce=1)
    operator.kubernetes.set_data(KEY, names.state_config_map(KEY.name), names.CHECKPOINT_KEY, encode(served))
    operator.driver_ends(2, code=137)
    operator.wait(60)
    await operator.settle()
    operator.wait(60)
    await operator.settle()
    assert described(operator, 3) == {}, "the nonce is served"


async def test_a_change_of_the_start_restarts_no_running_job() -> None:
    operator = OperatorFixture()
    await operator.run()
    operator.kubernetes.edit_job(KEY, startFrom={"snapshot": "before"})
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"]
