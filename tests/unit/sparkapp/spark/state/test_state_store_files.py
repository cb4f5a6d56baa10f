"""Query state on the volume: exactly the checkpoint's version is left for Spark, or the job stops and says why."""

from __future__ import annotations

import errno
import itertools
import json
import shutil
from pathlib import Path

import pytest

from sparkapp.clients.progress import Progress
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import QueryStateIncompatible, QueryStateMissing, VolumeUnusable
from sparkapp.model.job.spec import Job
from sparkapp.spark.failures import original_error
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.state.query_log import EngineState, encode_engine
from sparkapp.spark.state.state_store_files import folder_of, missing, prepare, query_folder
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.plain_job import plain_spec
from tests.support.jobs.rocksdb_snapshot import snapshot

STORES = ("0/0", "0/1", "1/0/left-keyToNumValues", "1/0/right-keyToNumValues", "1/1/left-keyToNumValues")


def put(folder: Path, *files: str, stores: tuple[str, ...] = STORES, text: str = "x") -> None:
    for store in stores:
        (folder / "state" / store / "_metadata").mkdir(parents=True, exist_ok=True)
        for file in files:
            path = folder / "state" / store / file
            if file.endswith(".zip"):
                snapshot(path)
            else:
                path.write_text(text)


def names(folder: Path, store: str = STORES[0]) -> list[str]:
    return sorted(entry.name for entry in (folder / "state" / store).iterdir() if entry.is_file())


def ready(folder: Path, *, version: int, partitions: int) -> Path:
    """Attempt 3 resumes from the files of attempt 1; attempt 2 completed nothing."""
    return prepare(folder, attempt=3, source=folder_of(folder, 1), version=version, partitions=partitions)


def test_an_attempt_gets_the_checkpoints_versions_and_none_that_is_newer(tmp_path: Path) -> None:
    previous = tmp_path / "attempt-1"
    put(
        previous, "1.delta", "2.delta", ".2.delta.crc", "2.snapshot", "3.delta", "4.delta", ".4.delta.crc", "4.snapshot"
    )
    put(previous, ".5.delta.ab12.tmp", "..5.delta.ab12.tmp.crc")
    (previous / "state/0/_metadata").mkdir()
    (previous / "state/0/_metadata/metadata").write_text("of the operator")
    own = ready(tmp_path, version=3, partitions=2)
    assert own == tmp_path / "attempt-3"
    for store in STORES:
        assert names(own, store) == [".2.delta.crc", "1.delta", "2.delta", "2.snapshot", "3.delta"], store
    assert (own / "state/0/_metadata/metadata").read_text() == "of the operator"
    assert "4.delta" in names(previous), "the document names it until this attempt has completed a checkpoint"


@pytest.mark.parametrize("links", [True, False])
def test_A3_a_superseded_driver_replaces_no_file_of_its_successor(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It resumes in a batch: Spark writes a temporary file, and renames it over whatever has the version's name."""
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError("no links here")))
    superseded = tmp_path / "attempt-1"
    put(superseded, "1.delta", "2.delta", text="before")
    own = ready(tmp_path, version=2, partitions=2)
    put(own, "3.delta", text="of attempt 3")
    for name in ("2.delta", "3.delta"):
        put(superseded, ".tmp", text="of attempt 1")
        for store in STORES:
            (superseded / "state" / store / ".tmp").replace(superseded / "state" / store / name)
    assert {(own / "state" / store / "2.delta").read_text() for store in STORES} == {"before"}
    assert {(own / "state" / store / "3.delta").read_text() for store in STORES} == {"of attempt 3"}
    again = prepare(tmp_path, attempt=4, source=folder_of(tmp_path, 3), version=3, partitions=2)
    assert {(again / "state" / store / "3.delta").read_text() for store in STORES} == {"of attempt 3"}


def test_folders_that_no_document_can_name_are_removed(tmp_path: Path) -> None:
    for attempt in (1, 2, 3, 5):
        put(tmp_path / f"attempt-{attempt}", "1.delta")
    put(tmp_path, "1.delta")
    (tmp_path / "metadata").write_text("of a previous layout")
    prepare(tmp_path, attempt=4, source=folder_of(tmp_path, 2), version=1, partitions=2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["attempt-2", "attempt-4", "attempt-5"], (
        "attempt 5 superseded this attempt"
    )


def test_what_killed_starts_have_left_makes_room_before_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No document names attempt 2, which was killed while it copied. The volume has room for two copies."""
    for attempt in (1, 2):
        put(tmp_path / f"attempt-{attempt}", "1.snapshot", "2.snapshot")

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def copy(source: Path, target: Path) -> None:
        if len([file for file in tmp_path.rglob("*.snapshot")]) >= 4 * len(STORES):
            raise OSError(errno.ENOSPC, "No space left on device")
        target.write_bytes(source.read_bytes())

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(shutil, "copyfile", copy)
    assert names(ready(tmp_path, version=2, partitions=2)) == ["1.snapshot", "2.snapshot"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["attempt-1", "attempt-3"]


def test_each_store_folder_and_file_is_progress(tmp_path: Path) -> None:
    """A watchdog ends a start that makes none for some minutes, and a volume may be slow with each of them."""
    for attempt in (1, 2):
        put(tmp_path / f"attempt-{attempt}", "1.snapshot", "2.snapshot")
    progress, counted = Progress(), []
    real = progress.count
    progress.count = lambda: (real(), counted.append(len(list(tmp_path.rglob("*")))))  # type: ignore[assignment]
    prepare(tmp_path, attempt=3, source=folder_of(tmp_path, 1), version=2, partitions=2, progress=progress)
    folders_of_an_attempt = 1 + len([each for each in (tmp_path / "attempt-1").rglob("*") if each.is_dir()])
    assert progress.done >= len(STORES) + folders_of_an_attempt + 2 * len(STORES)
    biggest = max(abs(after - before) for before, after in itertools.pairwise(counted))
    assert biggest <= 4, "the files of one store, and their folder"


def test_state_of_a_release_that_had_one_folder_is_taken_over(tmp_path: Path) -> None:
    put(tmp_path, "1.delta", "2.delta")
    own = prepare(tmp_path, attempt=4, source=tmp_path, version=1, partitions=2)
    assert names(own) == ["1.delta"]
    assert names(tmp_path) == ["1.delta", "2.delta"], "needed until the document names a folder"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(["1.delta", "2.delta", "3.delta"], id="from-the-beginning"),
        pytest.param(["2.snapshot", "3.delta"], id="older-ones-cleaned-up"),
        pytest.param(["3.snapshot"], id="a-snapshot-alone"),
        pytest.param(["2.zip", "3.changelog"], id="rocksdb-changes"),
        pytest.param(["3.zip"], id="rocksdb"),
    ],
)
def test_a_version_that_can_be_put_together_is_found(tmp_path: Path, files: list[str]) -> None:
    put(tmp_path / "attempt-1", *files)
    assert names(ready(tmp_path, version=3, partitions=2)) == sorted(files)


def test_folders_of_rocksdb_are_no_stores(tmp_path: Path) -> None:
    """A partition of RocksDB has the tables of its snapshots in a folder."""
    put(tmp_path / "attempt-1", "2.zip", "3.changelog")
    for store in STORES:
        for name in ("SSTs", "logs"):
            (tmp_path / "attempt-1" / "state" / store / name).mkdir()
            (tmp_path / "attempt-1" / "state" / store / name / "000008-ab12.sst").write_text("x")
    own = ready(tmp_path, version=3, partitions=2)
    assert names(own) == ["2.zip", "3.changelog"]
    assert (own / "state" / STORES[2] / "SSTs" / "000008-ab12.sst").read_text() == "x"


class FailsOnce:
    """A call of paths that the volume answers with an error, once, for a name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: str, name: str, error: OSError) -> None:
        self.left = 1
        real = getattr(Path, call)

        def called(path: Path, *arguments: object, **keywords: object) -> object:
            if path.name == name and self.left:
                self.left -= 1
                raise error
            return real(path, *arguments, **keywords)

        monkeypatch.setattr(Path, call, called)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("read_bytes", "2.zip"),  # the snapshot
        ("stat", "8-ab.sst"),  # its table
        ("stat", "3.changelog"),
        ("iterdir", "1"),  # a partition
        ("stat", "state"),
    ],
)
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN])
def test_a_volume_that_fails_is_no_loss_of_state(
    call: str, name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    previous = tmp_path / "attempt-1"
    put(previous, "2.zip", "3.changelog")
    snapshot(previous / "state/0/1/2.zip", tables={"8-ab.sst": "table"})
    failing = FailsOnce(monkeypatch, call, name, OSError(number, "the volume is away"))
    with pytest.raises(VolumeUnusable, match="attempt-1/state cannot be read: the volume is away") as caught:
        ready(tmp_path, version=3, partitions=2)
    assert not failing.left
    assert not caught.value.fatal
    assert names(ready(tmp_path, version=3, partitions=2), "0/1") == ["2.zip", "3.changelog"], "the next attempt"


def test_a_snapshot_that_is_just_written_again_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor of a driver that was replaced removes it and puts another there."""
    put(tmp_path / "attempt-1", "2.zip", "3.changelog")
    FailsOnce(monkeypatch, "read_bytes", "2.zip", FileNotFoundError(errno.ENOENT, "No such file"))
    with pytest.raises(VolumeUnusable, match="No such file"):
        ready(tmp_path, version=3, partitions=2)


def test_a_damaged_snapshot_is_no_version_wherever_the_damage_is(tmp_path: Path) -> None:
    previous = tmp_path / "attempt-1"
    put(previous, "2.zip", "3.changelog")
    damaged = previous / "state/0/1/2.zip"
    snapshot(damaged, tables={f"{number}-ab.sst": "table" for number in range(9)}, compressed=True)
    whole, found = damaged.read_bytes(), 0
    for place in range(len(whole)):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        found += any("0/1 2.zip" in gap for gap in missing(previous / "state", 3, 2))
    assert found > len(whole) // 2


@pytest.mark.parametrize("gap", ["removed", "short", "unreadable"])
def test_a_snapshot_without_its_tables_is_no_version(tmp_path: Path, gap: str) -> None:
    """Spark removes the tables of a snapshot before the snapshot."""
    previous = tmp_path / "attempt-1"
    put(previous, "2.zip", "3.changelog")
    snapshot(previous / "state/0/1/2.zip", tables={"8-ab.sst": "table", "9-cd.sst": "more"})
    assert names(ready(tmp_path, version=3, partitions=2), "0/1") == ["2.zip", "3.changelog"]
    words = r"0/1 2\.zip needs SSTs/9-cd\.sst"
    if gap == "removed":
        (previous / "state/0/1/SSTs/9-cd.sst").unlink()
    elif gap == "short":
        (previous / "state/0/1/SSTs/9-cd.sst").write_text("")
    else:
        (previous / "state/0/1/2.zip").write_text("half a snapsh")
        words = r"0/1 2\.zip cannot be read"
    with pytest.raises(QueryStateMissing, match=words):
        ready(tmp_path, version=3, partitions=2)


def test_partitions_of_before_a_repartition_are_left_out(tmp_path: Path) -> None:
    """Spark reads every partition that a folder has, whatever the number of its log."""
    previous = tmp_path / "attempt-1"
    put(previous, "3.zip", "4.changelog", stores=("0/0",))
    put(previous, "2.zip", stores=("0/1", "0/2"))
    own = ready(tmp_path, version=4, partitions=1)
    assert [entry.name for entry in (own / "state" / "0").iterdir()] == ["0"]
    with pytest.raises(QueryStateMissing, match="0/1 has versions 2 to 2, version 4 needs more"):
        ready(tmp_path, version=4, partitions=2)


def test_one_partition_is_enough_where_an_operator_has_no_keys(tmp_path: Path) -> None:
    put(tmp_path / "attempt-1", "1.delta", stores=("0/0",))
    ready(tmp_path, version=1, partitions=2)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "has versions none"),
        (["1.delta", "2.delta"], "has versions 1 to 2, version 3 needs more"),
        (["1.delta", "3.delta"], "has versions 1 to 3, version 3 needs more"),
        (["4.delta", "5.snapshot"], "has versions 4 to 5, version 3 needs more"),
        (["2.delta", "3.delta"], "has versions 2 to 3, version 3 needs more"),
    ],
)
def test_a_version_that_is_not_whole_stops_the_job_and_nothing_is_removed(
    tmp_path: Path, files: list[str], words: str
) -> None:
    previous = tmp_path / "attempt-1"
    put(previous, "3.snapshot")
    (previous / "state/0/1/3.snapshot").unlink()
    put(previous, *files, stores=("0/1",))
    with pytest.raises(QueryStateMissing, match=f"0/1 {words}") as caught:
        ready(tmp_path, version=3, partitions=2)
    assert "another name" in caught.value.remedy
    assert names(previous, "0/1") == sorted(files)


def test_an_empty_file_is_no_version(tmp_path: Path) -> None:
    """A node that lost power may leave one: files of state are not forced to the disk."""
    put(tmp_path / "attempt-1", "1.delta")
    put(tmp_path / "attempt-1", "1.delta", stores=("0/1",), text="")
    with pytest.raises(QueryStateMissing, match="0/1 has versions none"):
        ready(tmp_path, version=1, partitions=2)


def test_an_empty_volume_and_a_lost_partition_stop_the_job(tmp_path: Path) -> None:
    with pytest.raises(QueryStateMissing, match="the folder has no query state"):
        ready(tmp_path, version=3, partitions=2)
    put(tmp_path / "attempt-1", "3.snapshot")
    with pytest.raises(QueryStateMissing, match="operator 0 has no partition 2"):
        ready(tmp_path, version=3, partitions=3)


def test_state_of_no_checkpoint_is_removed(tmp_path: Path) -> None:
    """The first batch died before its checkpoint, or the transform of the last checkpoint kept no state any more."""
    for previous in (tmp_path, tmp_path / "attempt-1"):
        put(previous, "1.delta")
    assert list(ready(tmp_path, version=0, partitions=0).iterdir()) == []
    assert list(tmp_path.iterdir()) == [tmp_path / "attempt-3"]


@pytest.mark.parametrize(("has_state", "refused"), [(True, True), (False, False)])
def test_the_attempt_prepares_the_version_of_its_document(tmp_path: Path, *, has_state: bool, refused: bool) -> None:
    metadata = json.dumps({"conf": {"spark.sql.shuffle.partitions": "2"}})
    document = CheckpointDocument(
        job_uid="uid", attempt=1, checkpoint_id=12, created_at="", parallelism=1, prefix="p",
        engine=encode_engine(EngineState(5, metadata, base=9, attempt=1)), engine_has_state=has_state,
    )  # fmt: skip
    spec = plain_spec()
    around = DriverEnvironment(
        store=MemoryStore(), retained=MemoryRetainedStore(),
        write_report=lambda _: None, open_session=pytest.fail, close_session=lambda _: None,
        folder=tmp_path, stateful_allowed=True, credentials=tmp_path,
    )  # fmt: skip
    job = Job(namespace="n", name="job", uid="uid", generation=1, attempt=2, spec=spec)
    previous = tmp_path / "attempt-1"
    put(previous, "2.snapshot", "3.delta", "4.delta")
    own = query_folder(job, around.folder, document, stateful_allowed=around.stateful_allowed)
    assert own == tmp_path / "attempt-2"
    assert (own / "state").exists() is has_state
    if has_state:
        assert names(own) == ["2.snapshot", "3.delta"]
        (previous / "state/0/1/3.delta").unlink()
    if refused:
        with pytest.raises(QueryStateMissing, match="version 3"):
            query_folder(job, around.folder, document, stateful_allowed=around.stateful_allowed)


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", QueryStateMissing),
        ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", QueryStateMissing),
        ("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", QueryStateIncompatible),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", QueryStateIncompatible),
        ("STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE", QueryStateIncompatible),
    ],
)
def test_sparks_own_refusal_of_state_is_final(condition: str, error: type[QueryStateMissing]) -> None:
    found = original_error(f"Job aborted due to stage failure: Task 0\n  x.Y: [{condition}] Cannot do it.\n  at a.b")
    assert type(found) is error
    assert found.message == f"[{condition}] Cannot do it."
    assert found.fatal


def test_an_accident_of_the_state_store_is_not_final() -> None:
    assert not original_error("x.Y: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] The disk was slow.").fatal
