"""Whatever becomes of the state ConfigMap between two attempts: refused with a reason before anything is touched.

The rows are those of docs/operations.md. Each is judged twice, by the driver's recovery and by the operator that would
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

from kafkasparkjob_operator.state_view import StateKind
from sparkapp.model.checkpoint_codec import FORMAT_VERSION, MAX_DOCUMENT_BYTES, decode, encode
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointCorrupt,
    CheckpointError,
    CheckpointForeign,
    CheckpointMissing,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.sink.committer import Settled
from tests.support.api_client import REPOSITORY, ApiClient
from tests.support.operator_process import Place
from tests.support.state_site import ATTEMPT, SPLITS, StateSite, document

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


Spoil = Callable[[StateSite], None]


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


def written(text: Callable[[StateSite], str]) -> Spoil:
    return lambda site: site.write(text(site))


def edited(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return lambda site: site.edit(change)


def without_text(data: dict[str, str] | None = None, **fields: Any) -> Spoil:
    return lambda site: site.patch(data={"checkpoint.json": None, **(data or {})}, **fields)


def first_range(start: object, stop: object) -> Spoil:
    return edited(lambda body: body["splits"]["in"].update({"0": [start, stop]}))


def nothing_read_by_a_writer(body: dict[str, Any]) -> None:
    """A person moves the starts of one subtask's partitions to where they stopped."""
    writer = body["committables"][0]["subtask"]
    for split in SPLITS:
        if split.owner(2) == writer:
            body["splits"]["in"][str(split.partition.partition)] = [split.stop, split.stop]


def packed(site: StateSite) -> str:
    return base64.b64encode(gzip.compress(site.text.encode())).decode()


ADVERSARIES = {
    "deleted": Adversary(
        [StateSite.delete], CheckpointMissing, "ConfigMap orders-state is gone", StateKind.ABSENT
    ),
    "key-removed": Adversary(
        [without_text()], CheckpointMissing, "the state is empty, although checkpoint 6 of .* is kept", StateKind.EMPTY
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
        [written(lambda site, tenth=tenth: site.text[: len(site.text) * tenth // 10]) for tenth in range(10)],
        CheckpointCorrupt, "is not JSON",
    ),
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
        [written(lambda site: site.text + " " * (MEBIBYTE - len(site.text)))],
        CheckpointCorrupt, "is larger than 786432 bytes",
    ),
    "foreign": Adversary(
        [edited(lambda body: body.update(jobUid="uid-of-another-life"))], CheckpointForeign, "uid-of-another-life"
    ),
    "newer-format": Adversary(
        [
            edited(lambda body: body.update(formatVersion=FORMAT_VERSION + 1)),
            edited(lambda body: body.update(formatVersion=FORMAT_VERSION + 1, unheardOf={"a": 1})),
        ],
        CheckpointCorrupt, f"has format version {FORMAT_VERSION + 1}, this release reads {FORMAT_VERSION}",
    ),
    "newer-attempt": Adversary(
        [edited(lambda body: body.update(attempt=ATTEMPT + 1)), edited(lambda body: body.update(attempt=1_000_000))],
        CheckpointConflict, rf"attempt \d+ has claimed the checkpoint, this is attempt {ATTEMPT + 1}", StateKind.VALID,
    ),
    "unfit-range": Adversary(
        [edited(nothing_read_by_a_writer)], CheckpointCorrupt, "holds records, but none of that subtask's splits"
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
            written(lambda site: site.text.replace('"checkpointId":7', f'"checkpointId":{"9" * 10_000}')),
            written(lambda site: site.text.replace('"checkpointId":7', '"checkpointId":NaN')),
            written(lambda site: site.text.replace('"checkpointId":7', '"checkpointId":1e3')),
        ],
        CheckpointCorrupt, "contradicts itself|must be|must name|is not JSON",
    ),
    "twice": Adversary(
        [
            written(lambda site: site.text[:-1] + ',"attempt":2}'),
            written(lambda site: site.text.replace('"0":[10,20]', '"0":[10,20],"0":[0,20]')),
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
        CheckpointCorrupt, "engine text is not readable",
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
def site(api: ApiClient, core: Any, place: Place) -> StateSite:
    return StateSite(api, core, place.namespace)


@pytest.mark.parametrize(("name", "way"), CASES)
def test_it_is_refused_before_anything_is_touched(site: StateSite, name: str, way: Spoil) -> None:
    row = ADVERSARIES[name]
    way(site)
    before, kept = site.body(), site.retained.read()
    assert before.get("data", {}).get("checkpoint.json") != site.text, "nothing was spoilt"
    with pytest.raises(row.error, match=row.words) as caught:
        site.recover(Untouchable())
    assert type(caught.value) is row.error
    assert caught.value.fatal == (row.error is not CheckpointConflict)
    assert caught.value.remedy
    assert site.body() == before, "nobody writes into a state that nobody understands"
    assert site.retained.read() == kept
    view = site.operators_view()
    assert view.kind is row.view
    if view.kind is StateKind.REFUSED:
        assert view.error is not None
        assert (view.error.reason, view.error.message) == (caught.value.reason, caught.value.message)


def test_the_document_as_it_was_is_gone_on_from(site: StateSite) -> None:
    """What the rows above spoil is good."""
    recovery = site.recover(Quiet())
    assert recovery.edited == ""
    assert recovery.document.offsets == {split.partition: 20 for split in SPLITS}
    assert site.operators_view().kind is StateKind.VALID


@pytest.mark.parametrize("name", ["deleted", "key-removed"])
def test_a_state_that_is_gone_names_the_way_back(site: StateSite, name: str) -> None:
    ADVERSARIES[name].ways[0](site)
    with pytest.raises(CheckpointMissing) as caught:
        site.recover(Untouchable())
    remedy = caught.value.remedy
    assert "put ConfigMap orders-state back from a backup" in remedy
    assert "ConfigMap orders-checkpoints is still there" in remedy
    assert f"`python -m sparkapp checkpoint list --namespace {site.namespace} --job orders`" in remedy
    assert "source.startup.mode GROUP_OFFSETS" in remedy
    assert "SPECIFIC_OFFSETS" in remedy


def test_with_nothing_kept_an_empty_state_is_a_first_start(site: StateSite) -> None:
    """An attempt may have died before it claimed the state: its number says nothing."""
    site.api.call("DELETE", f"{site.maps}/orders-checkpoints")
    site.write(None)
    recovery = site.recover(Quiet(), attempt=9)
    assert recovery.first_start
    assert site.operators_view().kind is StateKind.VALID, "claimed"


# -- edits that are consistent in themselves: honoured, and told where they can be noticed -----------------------------


def test_edited_offsets_are_honoured_and_told(site: StateSite) -> None:
    """Of a job at rest, as people do it: its last document is kept, so the edit shows."""
    rest = document(site.uid, drained=True, committables=())
    site.keep(rest)
    before = encode(rest)
    site.write(before.replace('"0":[10,20]', '"0":[3,3]'))
    assert site.body()["data"]["checkpoint.json"] != before
    recovery = site.recover(Quiet())
    assert recovery.document.offsets[TopicPartition("in", 0)] == 3
    assert recovery.edited == "offsets of checkpoint 7 were edited, the job goes on from there: in-0 20 -> 3"


def test_an_older_document_is_honoured_and_told(site: StateSite) -> None:
    """A backup of an earlier generation."""
    site.keep(document(site.uid, checkpoint_id=9, created_at="2026-11-21T09:02:00Z", committables=()))
    recovery = site.recover(Quiet())
    assert recovery.document.checkpoint_id == 7
    assert recovery.edited.startswith("the state is at checkpoint 7, although 9 of 2026-11-21T09:02:00Z is kept")


def test_an_edit_that_nothing_shows_is_honoured_in_silence(site: StateSite) -> None:
    """Checkpoint 7 is not kept: it was not the last of an orderly stop."""
    splits = (KafkaPartitionSplit(TopicPartition("in", 0), 3, 5), *SPLITS[1:])
    site.write(encode(replace(document(site.uid), splits=splits)))
    recovery = site.recover(Quiet())
    assert (recovery.document.offsets[TopicPartition("in", 0)], recovery.edited) == (5, "")


def test_the_claim_is_all_that_a_recovery_changes_before_it_settles(site: StateSite) -> None:
    class Ends(Quiet):
        def settle(self, _: object) -> NoReturn:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        site.recover(Ends())
    claimed = decode(site.body()["data"]["checkpoint.json"], job_uid=site.uid)
    assert claimed == document(site.uid, attempt=ATTEMPT + 1)


def test_the_documentation_has_a_row_for_each() -> None:
    from tests.integration.kubeapi import test_state_writes

    text = (REPOSITORY / "docs/operations.md").read_text(encoding="utf-8")
    section = text.split("## The state ConfigMap", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    tests = [name for name in vars(test_state_writes) if name.startswith("test_write_")]
    writes = [name.removeprefix("test_write_").replace("_", "-") for name in tests]
    assert sorted(rows) == sorted([*ADVERSARIES, "edited", "put-back", *writes])
