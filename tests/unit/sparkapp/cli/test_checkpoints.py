"""The commands for a job's checkpoints, on a state file and on a Kubernetes that is a fake."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.__main__ import main
from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.checkpoint.store import FileStore
from sparkapp.cli import checkpoints
from sparkapp.cli.job_checkpoints import FoundJob, JobCheckpoints
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CommandRefused
from sparkapp.model.partition import TopicPartition


def at(*offsets):
    partitions = [TopicPartition("in", number) for number in range(len(offsets))]
    return tuple(map(KafkaPartitionSplit, partitions, offsets, offsets))


CURRENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
    splits=at(100, 50, 7), counters=Counters(records_in=157, records_out=150), redeploy_nonce=4,
)  # fmt: skip
EARLIER = [
    replace(CURRENT, checkpoint_id=12, created_at="2026-11-21T08:00:00Z", splits=at(60, 50), attempt=2),
    replace(CURRENT, checkpoint_id=20, created_at="2026-11-21T08:20:00Z", splits=at(80, 50, 2), drained=True),
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    FileStore(path).write(encode(CURRENT), expected="0")
    texts = {retained_key(earlier.checkpoint_id): encode_retained(retained(earlier)) for earlier in EARLIER}
    FolderRetainedStore.next_to(path).change(texts, [])
    return path


@pytest.fixture
def run(state, capsys):
    def call(*arguments):
        status = main(["checkpoint", *arguments, "--state", str(state)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_list_shows_the_current_one_first_and_then_the_newest(run):
    status, out, _ = run("list")
    assert status == 0
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["CHECKPOINT", "TIME", "KIND"],
        ["40", "2026-11-21T09:00:00Z", "current"],
        ["20", "2026-11-21T08:20:00Z", "retained"],
        ["12", "2026-11-21T08:00:00Z", "retained"],
    ]
    assert "orderly stop" in out.splitlines()[2]
    rows = json.loads(run("list", "--output", "json")[1])
    assert [(row["checkpoint"], row["partitions"], row["recordsIn"]) for row in rows] == [
        (40, 3, 157), (20, 3, 157), (12, 2, 157),
    ]  # fmt: skip


def test_list_shows_what_cannot_be_read_as_such(run, state):
    FolderRetainedStore.next_to(state).change({retained_key(30): "{"}, [])
    rows = json.loads(run("list", "-o", "json")[1])
    assert [row["kind"] for row in rows] == ["current", "retained, unusable", "retained", "retained"]
    assert "checkpoint-30.json" in rows[1]["note"]
    FileStore(state).write(encode(CURRENT).replace('"attempt":3', '"attempt":0'), expected="1")
    rows = json.loads(run("list", "-o", "json")[1])
    assert rows[0]["kind"] == "current, unusable"
    assert [row["checkpoint"] for row in rows] == [None, None, 20, 12], "what can be gone back to is still shown"


def test_show_prints_where_each_partition_stood(run):
    rows = json.loads(run("show", "12", "-o", "json")[1])
    assert rows == [
        {"topic": "in", "partition": 0, "offset": 60, "behindCurrent": 40},
        {"topic": "in", "partition": 1, "offset": 50, "behindCurrent": 0},
    ]
    assert [row["offset"] for row in json.loads(run("show", "-o", "json")[1])] == [100, 50, 7]
    status, out, err = run("show", "99")
    assert (status, out) == (1, "")
    assert "CheckpointNotRetained: checkpoint 99 is not retained; retained are 20 (2026-11-21T08:20:00Z), 12" in err


def test_show_prints_the_offsets_of_an_earlier_checkpoint(run, state):
    """With them a user recreates the job."""
    FileStore(state).write(encode(CURRENT).replace('"attempt":3', '"attempt":0'), expected="1")
    rows = json.loads(run("show", "12", "-o", "json")[1])
    assert [(row["offset"], row["behindCurrent"]) for row in rows] == [(60, None), (50, None)]
    status, _, err = run("show")
    assert status == 1
    assert "StateCorrupt: document.attempt" in err
    assert "SpecificOffsets" in err


def test_show_prints_the_stops_of_a_bounded_job(run, state):
    bounded = replace(EARLIER[0], stopping="Latest", stops={TopicPartition("in", 0): 500})
    FolderRetainedStore.next_to(state).change({retained_key(12): encode_retained(retained(bounded))}, [])
    assert [row["stop"] for row in json.loads(run("show", "12", "-o", "json")[1])] == [500, None]


def test_verify_is_content_with_what_is_right(run):
    status, out, err = run("verify")
    assert (status, err) == (0, "")
    assert out.count("valid") == 3


def test_verify_says_what_is_wrong_in_text_and_by_its_status(run, state):
    FolderRetainedStore.next_to(state).change({retained_key(12): "{"}, [])
    status, out, err = run("verify")
    assert status == 1
    assert "the retained checkpoint checkpoint-12.json cannot be used: the text is not JSON" in out
    assert "1 of 3 checkpoint(s)" in err


def test_verify_looks_at_the_current_document_as_well(run, state):
    text = encode(CURRENT).replace('"attempt":3', '"attempt":0')
    FileStore(state).write(text, expected="1")
    status, out, _ = run("verify")
    assert status == 1
    assert "document.attempt must be a whole number from 1 to 2147483647" in out


def test_a_restore_shows_what_it_means_and_changes_nothing(run, state):
    before = state.read_text()
    status, out, _ = run("restore", "12")
    assert status == 0
    lines = out.splitlines()
    assert lines[1].split() == ["in", "0", "60", "100", "40", "again"]
    assert lines[2].split()[:2] == ["in", "2"]
    assert "again, from the beginning" in lines[2]
    assert "checkpoint 12 of 2026-11-21T08:00:00Z: 40 record(s) of 1 partition(s) are read and written again" in out
    assert "nothing was changed; add --yes" in out
    assert state.read_text() == before


def test_a_restore_of_a_local_job_says_which_fields_to_set(run, state):
    before = state.read_text()
    assert '"restore": {"checkpoint": 20, "nonce": 5}' in run("restore", "20", "--yes")[1]
    assert state.read_text() == before
    status, out, err = run("restore", "20", "--yes", "-o", "json")
    assert json.loads(out)[0]["records"] == 20, "the answer for programs is alone on its stream"
    assert '"nonce": 5' in err
    assert status == 0


def test_a_restore_is_refused_where_operators_keep_state(run, state):
    FileStore(state).write(encode(replace(CURRENT, engine_has_state=True)), expected="1")
    status, _, err = run("restore", "12", "--yes")
    assert status == 1
    assert "RestoreRefused" in err
    assert "SpecificOffsets" in err


class Kubernetes(JobCheckpoints):
    """A resource whose patches are noted."""

    def __init__(self, **spec):
        self.spec = spec
        self.asked = []

    def find(self):
        texts = {retained_key(earlier.checkpoint_id): encode_retained(retained(earlier)) for earlier in EARLIER}
        return FoundJob(uid="uid", text=encode(CURRENT), texts=texts, spec=self.spec, version="7")

    def snapshot(self, name):
        if name != "before":
            raise CommandRefused(f"no snapshot {name}", remedy="kubectl get kss")
        return replace(retained(EARLIER[1]), job_uid="another")

    def request_restore(self, found, restore):
        self.asked.append((found.version, restore.snapshot or restore.checkpoint, restore.nonce))
        return "patched"


@pytest.mark.parametrize(("nonce", "next_one"), [(0, 5), (4, 5), (9, 10)])
def test_the_nonce_grows_beyond_what_was_asked_for_and_what_was_served(monkeypatch, capsys, nonce, next_one):
    place = Kubernetes(restore={"nonce": nonce})
    monkeypatch.setattr(checkpoints, "checkpoints_of", lambda **_: place)
    assert main(["checkpoint", "restore", "12", "--job", "orders"]) == 0
    assert place.asked == []
    assert main(["checkpoint", "restore", "12", "--job", "orders", "--yes"]) == 0
    assert place.asked == [("7", 12, next_one)]
    out = capsys.readouterr().out
    assert out.endswith("patched\n")
    assert "checkpoint is the oldest retained" in out


def test_a_snapshot_is_a_target_like_a_retained_checkpoint(monkeypatch, capsys):
    place = Kubernetes(restore={"nonce": 9})
    monkeypatch.setattr(checkpoints, "checkpoints_of", lambda **_: place)
    named = ["--job", "orders", "--namespace", "shop"]
    assert main(["checkpoint", "restore", "--snapshot", "before", *named, "--yes"]) == 0
    assert place.asked == [("7", "before", 10)]
    assert "25 record(s) of 2 partition(s) are read and written again" in capsys.readouterr().out
    assert main(["checkpoint", "restore", "--snapshot", "after", *named, "--yes"]) == 1
    assert capsys.readouterr().err == "no snapshot after\nFix: kubectl get kss\n"
    for target in ([], ["12", "--snapshot", "before"]):
        assert main(["checkpoint", "restore", *target, *named, "--yes"]) == 1
        assert "name a checkpoint or a snapshot" in capsys.readouterr().err
    assert len(place.asked) == 1


def test_a_member_of_a_group_is_not_restored(monkeypatch, capsys):
    place = Kubernetes(source={"groupMembership": {"mode": "Subscribe"}})
    monkeypatch.setattr(checkpoints, "checkpoints_of", lambda **_: place)
    assert main(["checkpoint", "restore", "12", "--job", "orders", "--yes"]) == 1
    assert "--reset-offsets" in capsys.readouterr().err
    assert place.asked == []


def test_without_a_job_the_command_says_what_to_add(capsys):
    assert main(["checkpoint", "list"]) == 1
    assert "add --job NAME (and --namespace), or --state FILE" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "word"), [(None, "cannot read"), ("1\nx", "no checkpoint document")])
def test_a_state_file_that_is_none(tmp_path, capsys, text, word):
    if text:
        (tmp_path / "state").write_text(text)
    assert main(["checkpoint", "verify", "--state", str(tmp_path / "state")]) == 2
    assert word in capsys.readouterr().err


def test_the_document_is_the_one_that_the_driver_reads(state):
    assert decode(FileStore(state).read().text or "", job_uid="uid") == CURRENT
