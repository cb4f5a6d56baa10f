"""What is written next to the checkpoint's document, on a full volume: Spark's query log, earlier checkpoints.

The document itself is in the matrix (``disk-full``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.checkpoint.store import FileStore, Stored
from sparkapp.model.errors import VolumeFull, VolumeUnusable
from sparkapp.spark.state.query_log import EngineState, read_metadata, rebuild
from tests.support.jobs.volume import Volume, small_volume

ENGINE = EngineState(plan=3)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with small_volume(tmp_path / "volume") as mounted:
        yield mounted


def test_a_query_log_that_finds_no_room_is_rebuilt_when_there_is_some(volume: Volume) -> None:
    folder = volume.folder / "query"
    rebuild(folder, job_uid="u", checkpoint_id=2, engine=EngineState(plan=2), sources=1)
    volume.fill()
    with pytest.raises(VolumeFull, match=str(folder)):
        # What it deletes first makes room for some of the files: as many are needed as a volume has blocks.
        rebuild(folder, job_uid="u" * 2, checkpoint_id=3, engine=EngineState(3, _long_metadata()), sources=1)
    volume.free()
    rebuild(folder, job_uid="u", checkpoint_id=3, engine=ENGINE, sources=1)
    assert read_metadata(folder, 2) == ENGINE.metadata


def test_a_document_that_finds_no_room_leaves_the_previous_document_and_no_rest(volume: Volume) -> None:
    store = FileStore(volume.folder / "state")
    version = store.write("a" * 10_000, expected="0")
    volume.fill()
    with pytest.raises(VolumeFull):
        store.write("b" * 10_000, expected=version)
    assert store.read() == Stored("a" * 10_000, version)
    assert sorted(each.name for each in volume.folder.iterdir()) == [".state.lock", "filler", "state"]
    volume.free()
    assert store.read().version == version
    assert store.write("b", expected=version) == "2"


def test_an_earlier_checkpoint_that_finds_no_room_leaves_the_others(volume: Volume) -> None:
    store = FolderRetainedStore(volume.folder / "kept")
    store.change({"checkpoint-1.json": "1" * 5000}, [])
    volume.fill()
    with pytest.raises(VolumeFull):
        store.change({"checkpoint-2.json": "2" * 5000}, ["checkpoint-1.json"])
    assert [each.name for each in (volume.folder / "kept").iterdir()] == ["checkpoint-1.json"]


def test_a_place_that_cannot_be_written_at_all_is_distinguished(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(VolumeUnusable) as caught:
        FileStore(tmp_path / "missing" / "state").write("a", expected="0")
    assert type(caught.value) is VolumeUnusable
    with pytest.raises(VolumeUnusable):
        rebuild(tmp_path / "file", job_uid="u", checkpoint_id=1, engine=ENGINE, sources=1)


def _long_metadata() -> str:
    return '{"batchWatermarkMs":0,"conf":{"long":"' + "x" * 20_000 + '"}}'
