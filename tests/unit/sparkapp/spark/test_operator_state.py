"""Operators' state on the volume: exactly the checkpoint's version is left for Spark, or the job stops and says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import OperatorStateIncompatible, OperatorStateMissing
from sparkapp.model.job import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.spark.driver import Driver, Surroundings
from sparkapp.spark.failures import original_error
from sparkapp.spark.operator_state import prepare
from sparkapp.spark.query_log import EngineState, encode_engine
from tests.support.memory_store import MemoryStore

STORES = ("0/0", "0/1", "1/0/left-keyToNumValues", "1/0/right-keyToNumValues", "1/1/left-keyToNumValues")


def put(folder: Path, *files: str, stores: tuple[str, ...] = STORES, text: str = "x") -> None:
    for store in stores:
        (folder / "state" / store / "_metadata").mkdir(parents=True, exist_ok=True)
        for file in files:
            (folder / "state" / store / file).write_text(text)


def names(folder: Path, store: str = STORES[0]) -> list[str]:
    return sorted(one.name for one in (folder / "state" / store).iterdir() if one.is_file())


def test_what_is_newer_than_the_checkpoint_goes_in_every_store(tmp_path: Path) -> None:
    put(tmp_path, "1.delta", "2.delta", "2.snapshot", "3.delta", "4.delta", "4.snapshot", ".5.delta.ab12.tmp")
    (tmp_path / "state/0/_metadata").mkdir()
    (tmp_path / "state/0/_metadata/metadata").write_text("of the operator")
    prepare(tmp_path, version=3, partitions=2)
    for store in STORES:
        assert names(tmp_path, store) == ["1.delta", "2.delta", "2.snapshot", "3.delta"], store
    assert (tmp_path / "state/0/_metadata/metadata").exists()


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
    put(tmp_path, *files)
    prepare(tmp_path, version=3, partitions=2)
    assert names(tmp_path) == sorted(files)


def test_one_partition_is_enough_where_an_operator_has_no_keys(tmp_path: Path) -> None:
    put(tmp_path, "1.delta", stores=("0/0",))
    prepare(tmp_path, version=1, partitions=2)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "has versions none"),
        (["1.delta", "2.delta"], "has versions 1 to 2, not all that 3 needs"),
        (["1.delta", "3.delta"], "has versions 1 to 3, not all that 3 needs"),
        (["4.delta", "5.snapshot"], "has versions 4 to 5, not all that 3 needs"),
        (["2.delta", "3.delta"], "has versions 2 to 3, not all that 3 needs"),
    ],
)
def test_a_version_that_is_not_whole_stops_the_job_and_nothing_is_removed(
    tmp_path: Path, files: list[str], words: str
) -> None:
    put(tmp_path, "3.snapshot")
    (tmp_path / "state/0/1/3.snapshot").unlink()
    put(tmp_path, *files, stores=("0/1",))
    with pytest.raises(OperatorStateMissing, match=f"0/1 {words}") as caught:
        prepare(tmp_path, version=3, partitions=2)
    assert "another name" in caught.value.remedy
    assert names(tmp_path, "0/1") == sorted(files)


def test_an_empty_file_is_no_version(tmp_path: Path) -> None:
    """A node that lost power may leave one: files of state are not forced to the disk."""
    put(tmp_path, "1.delta")
    put(tmp_path, "1.delta", stores=("0/1",), text="")
    with pytest.raises(OperatorStateMissing, match="0/1 has versions none"):
        prepare(tmp_path, version=1, partitions=2)


def test_an_empty_volume_and_a_lost_partition_stop_the_job(tmp_path: Path) -> None:
    with pytest.raises(OperatorStateMissing, match="no operator's state at all"):
        prepare(tmp_path, version=3, partitions=2)
    put(tmp_path, "3.snapshot")
    with pytest.raises(OperatorStateMissing, match="operator 0 has no partition 2"):
        prepare(tmp_path, version=3, partitions=3)


def test_state_of_no_checkpoint_is_removed(tmp_path: Path) -> None:
    """The first batch died before its checkpoint, or the transform of the last checkpoint kept no state any more."""
    put(tmp_path, "1.delta")
    prepare(tmp_path, version=0, partitions=0)
    assert not (tmp_path / "state").exists()
    prepare(tmp_path, version=0, partitions=0)


@pytest.mark.parametrize(("has_state", "refused"), [(True, True), (False, False)])
def test_the_driver_asks_for_the_version_of_its_document(tmp_path: Path, *, has_state: bool, refused: bool) -> None:
    metadata = json.dumps({"conf": {"spark.sql.shuffle.partitions": "2"}})
    document = CheckpointDocument(
        job_uid="uid", attempt=1, checkpoint_id=12, created_at="", parallelism=1, prefix="p",
        engine=encode_engine(EngineState(5, metadata, base=9)), engine_has_state=has_state,
    )  # fmt: skip
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers="b:1"), source=Source(topics=("in",), group_id="g"),
        transform=Transform(), sink=Sink(topic="out", transactional_id_prefix="p"),
    )  # fmt: skip
    around = Surroundings(
        store=MemoryStore(), write_report=lambda _: None, open_session=pytest.fail, close_session=lambda _: None,
        folder=tmp_path, stateful_allowed=True, credentials=tmp_path,
    )  # fmt: skip
    driver = Driver(Job(namespace="n", name="job", uid="uid", generation=1, attempt=2, spec=spec), around)
    put(tmp_path, "2.snapshot", "3.delta", "4.delta")
    driver._prepare_operator_state(document)
    assert (tmp_path / "state").exists() is has_state
    if has_state:
        assert names(tmp_path) == ["2.snapshot", "3.delta"]
        (tmp_path / "state/0/1/3.delta").unlink()
    if refused:
        with pytest.raises(OperatorStateMissing, match="version 3"):
            driver._prepare_operator_state(document)


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", OperatorStateMissing),
        ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", OperatorStateMissing),
        ("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", OperatorStateIncompatible),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", OperatorStateIncompatible),
        ("STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE", OperatorStateIncompatible),
    ],
)
def test_sparks_own_refusal_of_state_is_final(condition: str, error: type[OperatorStateMissing]) -> None:
    found = original_error(f"Job aborted due to stage failure: Task 0\n  x.Y: [{condition}] Cannot do it.\n  at a.b")
    assert type(found) is error
    assert found.message == f"[{condition}] Cannot do it."
    assert found.fatal


def test_an_accident_of_the_state_store_is_not_final() -> None:
    assert not original_error("x.Y: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] The disk was slow.").fatal
