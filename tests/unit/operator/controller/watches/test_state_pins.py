"""A snapshot of a job with state keeps the state in its place, from before it is Ready until it is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.snapshots import Snapshots
from kafkasparkjob_operator.controller.watches.state_pins import LOOK_SECONDS, StatePins
from kafkasparkjob_operator.kubernetes.port import ClusterError
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import decode_snapshot, encode_retained
from tests.support.fakes.kubernetes import Body, FakeKubernetes
from tests.support.kubernetes.operator_fixture import KEY, UID, OperatorFixture
from tests.support.kubernetes.state_fixture import document

DOCUMENT = replace(document(UID), committables=(), engine_has_state=True)
CHECKPOINTS = ("ConfigMap", KEY.namespace, names.checkpoints_config_map(KEY.name))
PLACE = (names.SNAPSHOT_KIND, KEY.namespace, "before")
CONFIG_MAP = ("ConfigMap", KEY.namespace, names.snapshot_config_map("before", "snapshot-uid"))
PIN = "pin.kafkaspark.io/snapshot-uid"
VOLUME: Body = {"stateVolume": {"claimName": "state"}}
BUCKET: Body = {"state": {"storage": {"s3": {"bucket": "state"}}}}


class Rig(OperatorFixture):
    """A running job with state, and the controllers of snapshots and pins."""

    def __init__(self, checkpoint: Body) -> None:
        super().__init__(checkpoint=checkpoint, transform={"python": {"function": "app:run"}})
        self.seconds = 0.0

    def restart_operator(self, **keywords: Any) -> None:
        super().restart_operator(**keywords)
        self.snapshots = Snapshots(
            self.kubernetes, may_act=lambda: self.leading, monotonic=lambda: self.seconds, now=lambda: self.now
        )
        self.pins = StatePins(
            self.kubernetes, jobs=lambda: self.cache.stateful, may_act=lambda: self.leading,
            monotonic=lambda: self.seconds,
        )  # fmt: skip

    def retain(self, *numbers: int) -> None:
        """The driver has these retained checkpoints, and the newest is the current."""
        kept = [retained(replace(DOCUMENT, checkpoint_id=number), engine=f"engine {number}") for number in numbers]
        entries = {retained_key(each.checkpoint_id): encode_retained(each) for each in kept}
        self.kubernetes.objects[CHECKPOINTS]["data"] = entries
        text = encode(replace(DOCUMENT, checkpoint_id=max(numbers)))
        self.kubernetes.set_data(KEY, names.state_config_map(KEY.name), names.CHECKPOINT_KEY, text)

    def create(self) -> None:
        meta = {
            "namespace": KEY.namespace, "name": "before", "uid": "snapshot-uid", "generation": 1, "resourceVersion": "1"
        }  # fmt: skip
        self.kubernetes.objects[PLACE] = {
            "kind": names.SNAPSHOT_KIND, "metadata": meta, "spec": {"jobRef": {"name": KEY.name}}
        }  # fmt: skip
        self.see()

    def see(self) -> None:
        self.snapshots.put(self.body)
        self.pins.put(self.body)

    @property
    def body(self) -> Body:
        return self.kubernetes.objects[PLACE]

    @property
    def snapshot_status(self) -> Mapping[str, Any]:
        return dict(self.body.get("status") or {})

    @property
    def pinned(self) -> dict[str, str]:
        found = self.kubernetes.objects[CHECKPOINTS]["metadata"].get("annotations") or {}
        return {name: text for name, text in found.items() if name.startswith(names.ANNOTATION_PIN)}

    async def round(self) -> None:
        self.see()
        await self.snapshots.round()
        self.see()
        await self.pins.round()

    async def next_attempt(self) -> None:
        self.driver_ends(1)
        await self.settle()
        self.wait(60)
        await self.settle_or_refused()

    async def later(self) -> None:
        self.seconds += LOOK_SECONDS
        await self.pins.round()


@pytest.fixture(params=[VOLUME, BUCKET], ids=["volume", "bucket"])
async def rig(request: pytest.FixtureRequest) -> Rig:
    rig = Rig(request.param)
    await rig.run()
    rig.retain(6, 7)
    rig.create()
    return rig


async def test_the_state_is_pinned_before_the_snapshot_holds_its_checkpoint(rig: Rig) -> None:
    await rig.round()
    verbs = [(verb, name) for verb, _, name in rig.kubernetes.writes]
    assert verbs.index(("annotate", CHECKPOINTS[2])) < verbs.index(("create", CONFIG_MAP[2]))
    assert rig.pinned == {PIN: "7.before"}
    status = rig.snapshot_status
    assert (status["state"], status["checkpoint"]["id"]) == ("Ready", 7)
    assert status["checkpoint"]["stateFolder"] == f"{UID}/retained/checkpoint-7"
    assert status["message"].endswith(f"and state in folder {UID}/retained/checkpoint-7 of the job's volume or bucket")


async def test_a_checkpoint_that_the_driver_drops_meanwhile_is_not_taken(rig: Rig) -> None:
    annotate = rig.kubernetes.annotate_config_map

    async def dropped(*arguments: Any, **keywords: Any) -> Body | None:
        rig.retain(8)
        return await annotate(*arguments, **keywords)

    rig.kubernetes.annotate_config_map = dropped  # type: ignore[method-assign]
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Pending", "StateNotRetained")
    assert CONFIG_MAP not in rig.kubernetes.objects
    rig.kubernetes.annotate_config_map = annotate  # type: ignore[method-assign]
    await rig.round()
    assert (rig.snapshot_status["checkpoint"]["id"], rig.pinned) == (8, {PIN: "8.before"})


async def test_a_pin_that_is_lost_before_the_snapshot_holds_its_checkpoint_is_found(rig: Rig) -> None:
    """Somebody deletes the pins, and the operator creates their ConfigMap, while nothing says what they were."""
    create = rig.kubernetes.create

    async def meanwhile(manifest: Mapping[str, Any]) -> Body:
        if manifest["metadata"]["name"] == CONFIG_MAP[2]:
            rig.kubernetes.create = create  # type: ignore[method-assign]
            del rig.kubernetes.objects[CHECKPOINTS]
            await rig.settle()
            assert rig.pinned == {}
        return await create(manifest)

    rig.kubernetes.create = meanwhile  # type: ignore[method-assign]
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Pending", "StateNotRetained")
    assert CONFIG_MAP not in rig.kubernetes.objects
    rig.retain(8)
    await rig.round()
    assert (rig.snapshot_status["checkpoint"]["id"], rig.pinned) == (8, {PIN: "8.before"})


async def test_an_operator_that_ended_before_the_status_keeps_what_it_pinned(rig: Rig) -> None:
    """Its successor finds the ConfigMap with checkpoint 7, and later checkpoints."""
    rig.kubernetes.fail_write = 1
    await rig.snapshots.round()
    assert (CONFIG_MAP in rig.kubernetes.objects, rig.snapshot_status) == (True, {})
    rig.retain(7, 8, 9)
    rig.restart_operator()
    await rig.round()
    assert (rig.snapshot_status["checkpoint"]["id"], rig.pinned) == (7, {PIN: "7.before"})


async def test_a_deleted_snapshot_releases_the_state(rig: Rig) -> None:
    await rig.round()
    body = rig.kubernetes.objects.pop(PLACE)
    rig.pins.put(body, deleted=True)
    await rig.pins.round()
    assert rig.pinned == {}


async def test_a_deletion_during_a_look_is_looked_at_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.round()
    rig.seconds += LOOK_SECONDS
    body, get = dict(rig.body), FakeKubernetes.get

    async def deleted_behind_it(kubernetes: FakeKubernetes, kind: str, namespace: str, name: str) -> Body | None:
        found = await get(kubernetes, kind, namespace, name)
        if (kind, namespace, name) == PLACE:
            rig.kubernetes.objects.pop(PLACE)
            rig.pins.put(body, deleted=True)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(FakeKubernetes, "get", deleted_behind_it)
        await rig.pins.round()
    await rig.pins.round()
    assert rig.pinned == {}


@pytest.mark.parametrize("is_ready", [True, False])
async def test_a_snapshot_that_a_list_lacks_releases_the_state_too(rig: Rig, is_ready: bool) -> None:
    """The watch was interrupted, so its event of the deletion has no spec. It has brought the snapshot before."""
    await rig.round()
    if not is_ready:
        rig.body["status"]["state"] = "Pending"
        rig.restart_operator()
        rig.see()
        await rig.settle()
        await rig.pins.round()
    body = rig.kubernetes.objects.pop(PLACE)
    rig.pins.put({"kind": body["kind"], "metadata": body["metadata"]}, deleted=True)
    await rig.pins.round()
    assert rig.pinned == {}


async def test_a_snapshot_that_was_deleted_while_no_operator_ran_releases_it_too(rig: Rig) -> None:
    await rig.round()
    del rig.kubernetes.objects[PLACE]
    rig.restart_operator()
    await rig.settle()
    await rig.pins.round()
    assert rig.pinned == {}


async def test_another_snapshot_of_the_name_does_not_keep_the_state_of_the_first(rig: Rig) -> None:
    await rig.round()
    rig.body["metadata"]["uid"] = "another-uid"
    await rig.later()
    assert PIN not in rig.pinned


async def test_a_lost_pin_is_put_back(rig: Rig) -> None:
    await rig.round()
    rig.kubernetes.objects[CHECKPOINTS]["metadata"]["annotations"] = None
    await rig.later()
    assert rig.pinned == {PIN: "7.before"}
    writes = len(rig.kubernetes.writes)
    await rig.later()
    assert len(rig.kubernetes.writes) == writes, "nothing to change"


async def test_checkpoints_that_are_created_again_have_the_pins(rig: Rig) -> None:
    """In the same write: the driver reads the pins a minute later at most, and removes what has none."""
    await rig.round()
    del rig.kubernetes.objects[CHECKPOINTS]
    rig.kubernetes.writes.clear()
    await rig.settle()
    assert rig.pinned == {PIN: "7.before"}
    assert [verb for verb, _, name in rig.kubernetes.writes if name == CHECKPOINTS[2]] == ["create"]


async def test_a_snapshot_that_has_its_checkpoint_is_pinned_before_it_is_ready(rig: Rig) -> None:
    """The operator ended before the status, and somebody deleted the pins before its successor looked."""
    rig.kubernetes.fail_write = 1
    await rig.snapshots.round()
    assert (CONFIG_MAP in rig.kubernetes.objects, rig.snapshot_status) == (True, {})
    del rig.kubernetes.objects[CHECKPOINTS]
    rig.restart_operator()
    await rig.settle()
    assert rig.pinned == {PIN: "7.before"}


@pytest.mark.parametrize("failing", ["list_snapshots", "get_snapshot"])
async def test_without_the_snapshots_no_checkpoints_are_created(
    rig: Rig, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver takes a ConfigMap without pins for a job without snapshots."""
    await rig.round()
    del rig.kubernetes.objects[CHECKPOINTS]
    get = FakeKubernetes.get

    async def fails(*_: object) -> None:
        msg = "no answer"
        raise ClusterError(msg)

    async def fails_for_snapshots(kubernetes: FakeKubernetes, kind: str, namespace: str, name: str) -> Body | None:
        if kind == names.SNAPSHOT_KIND:
            await fails()
        return await get(kubernetes, kind, namespace, name)

    with monkeypatch.context() as patched:
        patched.setattr(
            FakeKubernetes, *(("get", fails_for_snapshots) if failing == "get_snapshot" else (failing, fails))
        )
        with pytest.raises(ClusterError, match="no answer"):
            await rig.look()
    assert CHECKPOINTS not in rig.kubernetes.objects
    await rig.settle()
    assert rig.pinned == {PIN: "7.before"}


async def test_nor_where_a_snapshot_cannot_be_read(rig: Rig) -> None:
    await rig.round()
    del rig.kubernetes.objects[CHECKPOINTS]
    rig.kubernetes.objects[CONFIG_MAP]["data"] = {names.SNAPSHOT_KEY: "{"}
    await rig.settle()
    assert CHECKPOINTS not in rig.kubernetes.objects
    assert rig.status["state"] == "Running", "the driver removes nothing meanwhile"
    await rig.next_attempt()
    assert rig.drivers == []
    assert "kubectl delete kafkasparksnapshot before -n team" in rig.status["message"]
    rig.kubernetes.remove(PLACE)
    await rig.settle()
    assert (rig.drivers, rig.pinned) == (["orders-4-driver"], {})


@pytest.mark.parametrize("change", ["deleted", "failed", "recreated", "imported", "without-state", "of-another-job"])
async def test_what_keeps_no_state_of_the_job_is_not_pinned(rig: Rig, change: str) -> None:
    """Kubernetes collects the ConfigMap of a deleted snapshot some time later."""
    await rig.round()
    snapshot, config_map = rig.body, rig.kubernetes.objects[CONFIG_MAP]
    kept = decode_snapshot(config_map["data"][names.SNAPSHOT_KEY])
    if change == "deleted":
        del rig.kubernetes.objects[PLACE]
    elif change == "failed":
        snapshot["status"]["state"] = "Failed"
    elif change == "recreated":
        snapshot["metadata"]["uid"] = "another-uid"
    elif change == "imported":
        snapshot["spec"]["checkpoint"] = encode_retained(kept)
    elif change == "without-state":
        config_map["data"] = {names.SNAPSHOT_KEY: encode_retained(replace(kept, engine=""))}
    else:
        config_map["metadata"]["annotations"] = {names.ANNOTATION_JOB_UID: "created-before"}
    del rig.kubernetes.objects[CHECKPOINTS]
    await rig.settle()
    assert rig.pinned == {}
    await rig.later()
    assert rig.pinned == {}


async def test_a_pin_is_not_put_on_another_job_of_the_name(rig: Rig) -> None:
    await rig.round()
    meta = rig.kubernetes.objects[CHECKPOINTS]["metadata"]
    meta["annotations"] = None
    meta["ownerReferences"][0]["uid"] = "created-again"
    await rig.later()
    assert rig.pinned == {}


async def test_a_snapshot_that_waits_keeps_its_pin_and_a_failed_one_does_not(rig: Rig) -> None:
    await rig.round()
    rig.body["status"]["state"] = "Pending"
    await rig.later()
    assert rig.pinned == {PIN: "7.before"}
    rig.restart_operator()
    await rig.settle()
    rig.body["status"]["state"] = "Failed"
    await rig.pins.round()
    assert rig.pinned == {}


async def test_pins_wait_for_the_api_server_and_for_leadership(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.round()
    del rig.kubernetes.objects[PLACE]

    async def fails(*_: object) -> None:
        msg = "no answer"
        raise ClusterError(msg)

    rig.seconds += LOOK_SECONDS
    with monkeypatch.context() as patched:
        patched.setattr(FakeKubernetes, "get", fails)
        await rig.pins.round()
    rig.leading = False
    await rig.pins.round()
    assert rig.pinned == {PIN: "7.before"}
    rig.leading = True
    await rig.pins.round()
    assert rig.pinned == {}


async def test_an_imported_checkpoint_with_state_pins_nothing(rig: Rig) -> None:
    """The folder was copied by a person, so no driver removes it."""
    foreign = retained(replace(DOCUMENT, job_uid="foreign"), engine="of another cluster")
    rig.body["spec"]["checkpoint"] = encode_retained(foreign)
    await rig.round()
    assert (rig.snapshot_status["state"], rig.pinned) == ("Ready", {})
    assert rig.snapshot_status["checkpoint"]["stateFolder"] == "foreign/retained/checkpoint-7"
    made = rig.kubernetes.objects[CONFIG_MAP]
    assert decode_snapshot(made["data"][names.SNAPSHOT_KEY], job_uid="foreign") == foreign
