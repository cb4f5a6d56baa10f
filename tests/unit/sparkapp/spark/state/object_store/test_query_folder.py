"""Query state in an object store: an attempt gets what the document names, and changes nothing that one names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkapp.model.errors import QueryStateMissing, StateStoreUnusable
from sparkapp.model.job.spec import Job
from sparkapp.spark.state.object_store.query_folder import StoredQueryFolder, prepared
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.query_log import EngineState
from tests.support.fakes.object_files import Died, ObjectFiles
from tests.support.jobs.plain_job import plain_spec
from tests.support.object_store.state_in_store import (
    METADATA,
    STORAGE,
    STORES,
    document,
    files,
    folder,
    put,
    put_attempt,
    store,
)

__all__ = ["files", "folder", "store"]


def job(attempt: int) -> Job:
    return Job(namespace="n", name="j", uid="uid", generation=1, attempt=attempt, spec=plain_spec(state_s3=STORAGE))


def names(state: Path, store: str = STORES[0]) -> list[str]:
    return sorted(str(file.relative_to(state / store)) for file in (state / store).rglob("*") if file.is_file())


def test_an_attempt_gets_what_the_version_needs_and_no_more(store: ObjectStore, folder: Path) -> None:
    put_attempt(folder)
    own = prepared(job(3), store, document(4))
    assert own.uri == "s3a://bucket/team/state/uid/attempt-3"
    state = folder / "attempt-3/state"
    for each in STORES:
        assert names(state, each) == [
            "3.changelog", "3.zip", "4.changelog", "SSTs/3.zip-table.sst", "_metadata/schema"
        ], each  # fmt: skip
    assert (state / "0/_metadata/metadata").read_text() == "of the operator"
    assert not (state / "0/2").exists()


def test_a_version_without_a_snapshot_needs_all_changes(store: ObjectStore, folder: Path) -> None:
    put(folder / "attempt-1/state", "1.changelog", "2.changelog", "3.changelog")
    prepared(job(2), store, document(2))
    assert names(folder / "attempt-2/state") == ["1.changelog", "2.changelog"]


def test_only_folders_of_earlier_attempts_are_removed_and_never_the_documents(store: ObjectStore, folder: Path) -> None:
    for number in (1, 2, 4):
        put_attempt(folder, number)
    put(folder / "retained/state", "1.changelog")
    prepared(job(3), store, document(4))
    assert sorted(each.name for each in folder.iterdir()) == ["attempt-1", "attempt-3", "attempt-4", "retained"]


def test_what_killed_starts_have_left_is_removed_before_the_copy(
    store: ObjectStore, files: ObjectFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        put_attempt(folder, number)

    def killed(*_: str) -> None:
        raise Died

    monkeypatch.setattr(files, "copy_file", killed)
    with pytest.raises(Died):
        prepared(job(3), store, document(4))
    assert [each.name for each in folder.iterdir()] == ["attempt-1"]


def test_A3_a_superseded_driver_changes_nothing_of_its_successor(store: ObjectStore, folder: Path) -> None:
    superseded = put_attempt(folder)
    prepared(job(3), store, document(4))
    put(superseded, "4.changelog", "5.changelog", text="late")
    put(folder / "attempt-3/state", "5.changelog", text="of attempt 3")
    prepared(job(4), store, document(5, attempt=3))
    read = {name: (folder / "attempt-4/state/0/0" / name).read_text() for name in ("4.changelog", "5.changelog")}
    assert read == {"4.changelog": "x", "5.changelog": "of attempt 3"}


def test_a_job_without_state_begins_with_an_empty_folder(store: ObjectStore, folder: Path) -> None:
    put_attempt(folder, 2)
    prepared(job(2), store, document(0))
    assert not (folder / "attempt-2").exists()


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("0/1/4.changelog", "0/1 has versions 1 to 5, version 4 needs more"),
        ("1/0/left-keyToNumValues/SSTs/3.zip-table.sst", r"3\.zip needs SSTs/3\.zip-table\.sst"),
    ],
)
def test_a_version_with_a_gap_stops_the_job(lost: str, message: str, store: ObjectStore, folder: Path) -> None:
    (put_attempt(folder) / lost).unlink()
    with pytest.raises(QueryStateMissing, match=rf"not in s3a://bucket/team/state/uid/attempt-1/state: .*{message}"):
        prepared(job(2), store, document(4))
    assert not (folder / "attempt-2").exists()


@pytest.mark.parametrize("lost", ["before", "behind"])
def test_a_copy_that_is_not_whole_is_no_loss_of_state(
    lost: str, store: ObjectStore, files: ObjectFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object goes while it is copied, or its copy is not there. What the document names was whole just before."""
    state = put_attempt(folder)
    copy = files.copy_file

    def failing(source: str, target: str) -> None:
        if lost == "before":
            (state / STORES[1] / "4.changelog").unlink(missing_ok=True)
        copy(source, target)
        if lost == "behind":
            (folder / f"attempt-2/state/{STORES[1]}/4.changelog").unlink(missing_ok=True)

    with monkeypatch.context() as patched:
        patched.setattr(files, "copy_file", failing)
        with pytest.raises(StateStoreUnusable, match="of query state") as caught:
            prepared(job(2), store, document(4))
    assert not caught.value.fatal
    put(state, "4.changelog")
    prepared(job(3), store, document(4)).settle(4, 2)


def test_a_snapshot_that_is_just_written_again_is_no_loss_of_state(
    store: ObjectStore, files: ObjectFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = put_attempt(folder)
    opened = files.open_input_stream

    def failing(path: str) -> object:
        (state / STORES[0] / "3.zip").unlink(missing_ok=True)
        return opened(path)

    monkeypatch.setattr(files, "open_input_stream", failing)
    with pytest.raises(StateStoreUnusable, match=r"attempt-1/state/0/0/3\.zip was listed and is gone"):
        prepared(job(2), store, document(4))


def test_a_bucket_that_is_not_there_is_no_loss_of_state(store: ObjectStore, tmp_path: Path) -> None:
    """Its list is empty. The job waits for the bucket; without its folder the state is lost."""
    with pytest.raises(StateStoreUnusable, match="the bucket does not exist") as caught:
        prepared(job(2), store, document(4))
    assert not caught.value.fatal
    (tmp_path / "bucket").mkdir()
    with pytest.raises(QueryStateMissing, match="the folder has no query state"):
        prepared(job(2), store, document(4))


def test_an_attempt_that_dies_at_any_request_leaves_the_documents_state(
    store: ObjectStore, files: ObjectFiles, folder: Path
) -> None:
    """Each attempt gets one request further than the one before; the last has all of the version."""
    put_attempt(folder)
    for requests in range(200):
        files.dies_after = requests
        try:
            prepared(job(2 + requests), store, document(4))
        except Died:
            continue
        break
    assert requests > 25, "it died at many of them"
    assert names(folder / f"attempt-{2 + requests}/state")[:3] == ["3.changelog", "3.zip", "4.changelog"]
    assert sorted(each.name for each in folder.iterdir()) == ["attempt-1", f"attempt-{2 + requests}"]


def test_a_version_is_settled_when_the_store_lists_all_of_it(
    store: ObjectStore, files: ObjectFiles, folder: Path
) -> None:
    state = put_attempt(folder)
    own = StoredQueryFolder(store, "attempt-1", 3)
    own.settle(4, 2)
    with pytest.raises(StateStoreUnusable, match=r"version 6 .* is not whole in s3a://bucket/.*: 0/0 has versions"):
        own.settle(6, 2)
    put(state, "6.changelog")
    (state / STORES[1] / "6.changelog").write_text("")
    with pytest.raises(StateStoreUnusable, match="0/1 has versions"):
        StoredQueryFolder(store, "attempt-1", 5).settle(6, 2)
    put(state, "6.changelog")
    StoredQueryFolder(store, "attempt-1", 5).settle(6, 2)
    files.error = OSError("AWS Error SLOW_DOWN")
    with pytest.raises(StateStoreUnusable, match="s3://bucket/team/state at http://store:8333, cannot be used: AWS"):
        own.settle(7, 2)


def test_the_log_resumes_behind_the_documents_batch(store: ObjectStore, folder: Path) -> None:
    put_attempt(folder)
    (folder / "attempt-1/offsets").mkdir()
    (folder / "attempt-1/offsets/9").write_text("of a batch that was never completed")
    own = StoredQueryFolder(store, "attempt-1")
    engine = EngineState(3, METADATA, base=10, watermark=9)
    own.rebuild(job_uid="uid", checkpoint_id=14, engine=engine, sources=2)
    found = {str(file.relative_to(folder / "attempt-1")) for file in (folder / "attempt-1").glob("*s/*")}
    assert found == {"offsets/2", "offsets/3", "commits/3"}
    assert own.metadata(3) == METADATA
    with pytest.raises(StateStoreUnusable, match="attempt-1/offsets/4 is not there"):
        own.metadata(4)
