"""Whatever becomes of the state ConfigMap between two attempts: refused with a reason before anything is touched.

The rows are those of docs/state.md. Each is judged twice, by the driver's recovery and by the operator that would
start it.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pytest

from kafkasparkjob_operator.observation.state_view import StateKind
from sparkapp.model.checkpoint.codec import LOCAL_FORMAT_VERSION, MAX_DOCUMENT_BYTES, decode, encode
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointCorrupt,
    CheckpointError,
    CheckpointForeign,
    CheckpointMissing,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import Settled
from tests.support.kubernetes.api_client import REPOSITORY, ApiClient
from tests.support.kubernetes.state_fixture import ATTEMPT, SPLITS, StateFixture, document

MEBIBYTE = 1 << 20
"""All that a ConfigMap holds."""


class Untouchable:
    """Ends the test if recovery gets as far as a transaction."""

    def settle(self, _: object) -> NoReturn:
        pytest.fail("a transaction was settled by a document that must not be trusted")

    def abort_lingering(self, *_: object) -> NoReturn:
        pytest.fail("transactions were aborted for a document that must not be trusted")


class Quiet:
    """Nothing is open and nothing has to be settled."""

    def settle(self, _: object) -> Sequence[Settled]:
        return ()

    def abort_lingering(self, *_: object) -> int:
        return 0


Spoil = Callable[[StateFixture], None]


@dataclass(frozen=True)
class Adversary:
    """One row.

    :param ways: each is tried.
    :param error: what recovery raises, and its words.
    :param view: what the operator sees; a refusal has the same reason.
    """

    ways: Sequence[Spoil]
    error: type[CheckpointError]
    words: str
    view: StateKind = StateKind.REFUSED


def written(text: Callable[[StateFixture], str]) -> Spoil:
    return lambda state_fixture: state_fixture.write(text(state_fixture))


def edited(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return lambda state_fixture: state_fixture.edit(change)


def without_text(data: dict[str, str] | None = None, **fields: Any) -> Spoil:
    return lambda state_fixture: state_fixture.patch(data={"checkpoint.json": None, **(data or {})}, **fields)


def first_range(start: object, stop: object) -> Spoil:
    return edited(lambda body: body["splits"]["in"].update({"0": [start, stop]}))


def nothing_read_by_a_writer(body: dict[str, Any]) -> None:
    """A person moves the starts of one subtask's partitions to where they stopped."""
    writer = body["committables"][0]["subtask"]
    for split in SPLITS:
        if split.owner(2) == writer:
            body["splits"]["in"][str(split.partition.partition)] = [split.stop, split.stop]


def packed(state_fixture: StateFixture) -> str:
    return base64.b64encode(gzip.compress(state_fixture.text.encode())).decode()


ADVERSARIES = {
    "deleted": Adversary(
        [StateFixture.delete], CheckpointMissing, "ConfigMap orders-state does not exist", StateKind.ABSENT
    ),
    "key-removed": Adversary(
        [without_text()], CheckpointMissing, "although checkpoint 6 of .* is retained", StateKind.EMPTY
    ),
    "key-renamed": Adversary(
        [without_text(data={"backup.json": "{}"})], CheckpointCorrupt, "has no key checkpoint.json, but backup.json"
    ),
    "binary": Adversary(
        [
            without_text(binaryData={"checkpoint.json": "H4sI"}),
            without_text(binaryData={"checkpoint.json.gz": "H4sI"}),
        ],
        CheckpointCorrupt, r"as binary data, not as text|has no key checkpoint.json, but checkpoint.json.gz",
    ),
    "truncated": Adversary(
        [written(lambda state, tenth=tenth: state.text[: len(state.text) * tenth // 10]) for tenth in range(10)],
        CheckpointCorrupt, "is not JSON",
    ),
    "garbage": Adversary([written(lambda _: "\u0000not a document\uffff")], CheckpointCorrupt, "is not JSON"),
    "compressed": Adversary([written(packed)], CheckpointCorrupt, "is not JSON"),
    "nested": Adversary(
        [
            written(lambda _: "[" * MEBIBYTE),
            written(lambda _: "[" * (MAX_DOCUMENT_BYTES - 1)),
            written(lambda _: '{"a":' * (MAX_DOCUMENT_BYTES // 5)),
        ],
        CheckpointCorrupt, "is larger than 786432 bytes|is not JSON",
    ),
    "oversized": Adversary(
        [written(lambda state: state.text + " " * (MEBIBYTE - len(state.text)))],
        CheckpointCorrupt, "is larger than 786432 bytes",
    ),
    "foreign": Adversary(
        [edited(lambda body: body.update(jobUid="uid-of-another-job"))], CheckpointForeign, "uid-of-another-job"
    ),
    "newer-format": Adversary(
        [
            edited(lambda body: body.update(formatVersion=LOCAL_FORMAT_VERSION + 1)),
            edited(lambda body: body.update(formatVersion=LOCAL_FORMAT_VERSION + 1, unheardOf={"a": 1})),
        ],
        CheckpointCorrupt, f"has format version {LOCAL_FORMAT_VERSION + 1}, this release reads {LOCAL_FORMAT_VERSION}",
    ),
    "newer-attempt": Adversary(
        [edited(lambda body: body.update(attempt=ATTEMPT + 1)), edited(lambda body: body.update(attempt=1_000_000))],
        CheckpointConflict, rf"attempt \d+ has claimed the checkpoint, this is attempt {ATTEMPT + 1}", StateKind.VALID,
    ),
    "unfit-range": Adversary(
        [edited(nothing_read_by_a_writer)], CheckpointCorrupt, "holds records, but no split of that subtask"
    ),
    "unfit-parallelism": Adversary(
        [edited(lambda body: body.update(parallelism=1))], CheckpointCorrupt, "is not below the parallelism 1"
    ),
    "unfit-prefix": Adversary(
        [edited(lambda body: body["committables"][0].update(transactionalId="another.job-4"))],
        CheckpointCorrupt, "another.job-4 is of none of the prefixes p",
    ),
    "odd-number": Adversary(
        [
            first_range(-5, 20), first_range(20, 10), first_range(10, 1 << 63), first_range(10, 20.5),
            first_range(10, "20"), first_range(10, True),
            edited(lambda body: body["splits"]["in"].update({"-1": [10, 20]})),
            edited(lambda body: body["splits"]["in"].update({"4294967296": [10, 20]})),
            edited(lambda body: body.update(attempt=-1)), edited(lambda body: body.update(attempt=1 << 31)),
            edited(lambda body: body.update(checkpointId=1 << 63)),
            edited(lambda body: body["committables"][0].update(producerEpoch=32768)),
            written(lambda state: state.text.replace('"checkpointId":7', f'"checkpointId":{"9" * 10_000}')),
            written(lambda state: state.text.replace('"checkpointId":7', '"checkpointId":NaN')),
            written(lambda state: state.text.replace('"checkpointId":7', '"checkpointId":1e3')),
        ],
        CheckpointCorrupt, "contradicts itself|must be|must name|is not JSON",
    ),
    "twice": Adversary(
        [
            written(lambda state: state.text[:-1] + ',"attempt":2}'),
            written(lambda state: state.text.replace('"0":[10,20]', '"0":[10,20],"0":[0,20]')),
            edited(lambda body: body["committables"].append(body["committables"][0])),
        ],
        CheckpointCorrupt, "names a field twice|name the same transactional id",
    ),
    "fields": Adversary(
        [
            edited(lambda body: body.pop("splits")), edited(lambda body: body.update(comment="moved by hand")),
            edited(lambda body: body["hint"].pop("lastParallelism")), edited(lambda body: body.update(drained="no")),
        ],
        CheckpointCorrupt, "is missing|has unknown fields|must be true or false",
    ),
    "engine-text": Adversary(
        [
            edited(lambda body: body.update(engine="{")),
            edited(lambda body: body.update(engine='{"plan":1,"metadata":"' + "[" * 60_000 + '"}')),
        ],
        CheckpointCorrupt, "engine text of the checkpoint document cannot be read",
        # Only the driver knows its engine.
        StateKind.VALID,
    ),
}  # fmt: skip
CASES = [
    pytest.param(name, way, id=name if len(row.ways) == 1 else f"{name}-{number}")
    for name, row in ADVERSARIES.items()
    for number, way in enumerate(row.ways)
]


@pytest.fixture
def state_fixture(api: ApiClient, core: Any, namespace: str) -> StateFixture:
    return StateFixture(api, core, namespace)


@pytest.mark.parametrize(("name", "way"), CASES)
def test_it_is_refused_before_anything_is_touched(state_fixture: StateFixture, name: str, way: Spoil) -> None:
    row = ADVERSARIES[name]
    way(state_fixture)
    before, kept = state_fixture.body(), state_fixture.retained.read()
    assert before.get("data", {}).get("checkpoint.json") != state_fixture.text, "nothing was spoilt"
    with pytest.raises(row.error, match=row.words) as caught:
        state_fixture.recover(Untouchable())
    assert type(caught.value) is row.error
    assert caught.value.fatal == (row.error is not CheckpointConflict)
    assert caught.value.remedy
    assert state_fixture.body() == before, "nobody writes into a state that nobody understands"
    assert state_fixture.retained.read() == kept
    view = state_fixture.operators_view()
    assert view.kind is row.view
    if view.kind is StateKind.REFUSED:
        assert view.error is not None
        assert (view.error.reason, view.error.message) == (caught.value.reason, caught.value.message)


def test_the_document_as_it_was_is_gone_on_from(state_fixture: StateFixture) -> None:
    """What the rows above spoil is good."""
    recovery = state_fixture.recover(Quiet())
    assert recovery.edited == ""
    assert recovery.document.offsets == {split.partition: 20 for split in SPLITS}
    assert state_fixture.operators_view().kind is StateKind.VALID


@pytest.mark.parametrize("name", ["deleted", "key-removed"])
def test_a_state_that_is_gone_names_the_way_back(state_fixture: StateFixture, name: str) -> None:
    ADVERSARIES[name].ways[0](state_fixture)
    with pytest.raises(CheckpointMissing) as caught:
        state_fixture.recover(Untouchable())
    remedy = caught.value.remedy
    assert "restore ConfigMap orders-state from a backup" in remedy
    assert "ConfigMap orders-checkpoints exists" in remedy
    assert f"`python3 -m sparkapp checkpoint list --namespace {state_fixture.namespace} --job orders`" in remedy
    assert "source.startup.mode GroupOffsets" in remedy
    assert "SpecificOffsets" in remedy


def test_with_nothing_kept_an_empty_state_is_a_first_start(state_fixture: StateFixture) -> None:
    """An attempt may have died before it claimed the state: its number says nothing."""
    state_fixture.api.call("DELETE", f"{state_fixture.maps}/orders-checkpoints")
    state_fixture.write(None)
    recovery = state_fixture.recover(Quiet(), attempt=9)
    assert recovery.first_start
    assert state_fixture.operators_view().kind is StateKind.VALID, "claimed"


# -- edits that are consistent in themselves: honoured, and reported where they can be noticed -------------------------


def test_edited_offsets_are_honoured_and_reported(state_fixture: StateFixture) -> None:
    """Of a job at rest, as people do it: its last document is kept, so the edit shows."""
    rest = document(state_fixture.uid, drained=True, committables=())
    state_fixture.keep(rest)
    before = encode(rest)
    state_fixture.write(before.replace('"0":[10,20]', '"0":[3,3]'))
    assert state_fixture.body()["data"]["checkpoint.json"] != before
    recovery = state_fixture.recover(Quiet())
    assert recovery.document.offsets[TopicPartition("in", 0)] == 3
    assert recovery.edited == "offsets of checkpoint 7 were edited, the job resumes from there: in-0 20 -> 3"


def test_an_older_document_is_honoured_and_reported(state_fixture: StateFixture) -> None:
    """A backup of an earlier generation."""
    state_fixture.keep(document(state_fixture.uid, checkpoint_id=9, created_at="2026-11-21T09:02:00Z", committables=()))
    recovery = state_fixture.recover(Quiet())
    assert recovery.document.checkpoint_id == 7
    assert recovery.edited.startswith("the state is at checkpoint 7, although 9 of 2026-11-21T09:02:00Z is retained")


def test_an_edit_that_nothing_shows_is_honoured_in_silence(state_fixture: StateFixture) -> None:
    """Checkpoint 7 is not kept: it was not the last of an orderly stop."""
    splits = (KafkaPartitionSplit(TopicPartition("in", 0), 3, 5), *SPLITS[1:])
    state_fixture.write(encode(replace(document(state_fixture.uid), splits=splits)))
    recovery = state_fixture.recover(Quiet())
    assert (recovery.document.offsets[TopicPartition("in", 0)], recovery.edited) == (5, "")


def test_the_claim_is_all_that_a_recovery_changes_before_it_settles(state_fixture: StateFixture) -> None:
    class Ends(Quiet):
        def settle(self, _: object) -> NoReturn:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        state_fixture.recover(Ends())
    claimed = decode(state_fixture.body()["data"]["checkpoint.json"], job_uid=state_fixture.uid)
    assert claimed == document(state_fixture.uid, attempt=ATTEMPT + 1)


def test_the_documentation_has_a_row_for_each() -> None:
    from tests.integration.kubeapi import test_state_writes

    text = (REPOSITORY / "docs/state.md").read_text(encoding="utf-8")
    section = text.split("## The state ConfigMap", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    tests = [name for name in vars(test_state_writes) if name.startswith("test_write_")]
    writes = [name.removeprefix("test_write_").replace("_", "-") for name in tests]
    assert sorted(rows) == sorted([*ADVERSARIES, "edited", "put-back", *writes])
