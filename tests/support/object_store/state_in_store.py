"""The query state of a job in an object store, for unit tests: objects as Spark leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.job.sections.state_storage import S3Storage
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.query_log import EngineState, encode_engine
from tests.support.fakes.object_files import ObjectFiles
from tests.support.jobs.rocksdb_snapshot import snapshot

STORAGE = S3Storage(bucket="bucket", prefix="team/state", endpoint="http://store:8333")
STORES = ("0/0", "0/1", "1/0/left-keyToNumValues", "1/1/left-keyToNumValues")
METADATA = json.dumps({"batchWatermarkMs": 7, "conf": {"spark.sql.shuffle.partitions": "2"}})


@pytest.fixture
def files(tmp_path: Path) -> ObjectFiles:
    return ObjectFiles(tmp_path)


@pytest.fixture
def store(files: ObjectFiles) -> ObjectStore:
    return ObjectStore(STORAGE, STORAGE.folder("uid"), files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the job, where the files of ``store`` are."""
    return tmp_path / "bucket/team/state/uid"


def document(version: int, *, attempt: int = 1) -> CheckpointDocument:
    """Of a job that keeps state since checkpoint 10."""
    engine = EngineState(3, METADATA, base=10, watermark=9, previous_watermark=5, attempt=attempt)
    return CheckpointDocument(
        job_uid="uid", attempt=attempt, checkpoint_id=10 + version, created_at="2026-11-21T09:00:00Z", parallelism=1,
        prefix="p", engine=encode_engine(engine), engine_has_state=version > 0,
    )  # fmt: skip


def put(state: Path, *names: str, stores: tuple[str, ...] = STORES, text: str = "x", tables: str = "table") -> None:
    """Writes objects of each store of state.

    :param tables: end of the name of the table that a snapshot names.
    """
    for store in stores:
        for name in names:
            file = state / store / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".zip"):
                snapshot(file, tables={f"{name}-{tables}.sst": "table"})
            else:
                file.write_text(text)


def put_attempt(folder: Path, number: int = 1) -> Path:
    """Four versions, snapshots of two of them, a half-written object, and partitions of before a repartition."""
    state = folder / f"attempt-{number}/state"
    put(state, "1.changelog", "1.zip", "2.changelog", "3.changelog", "3.zip", "4.changelog", "5.changelog", "5.zip")
    put(state, "_metadata/schema", ".5.changelog.ab12.tmp", "SSTs/orphan.sst")
    put(state, "4.changelog", stores=("0/2",))
    (state / "0/_metadata").mkdir()
    (state / "0/_metadata/metadata").write_text("of the operator")
    return state


def tree(folder: Path) -> dict[str, bytes]:
    """The content of each file, by its path."""
    found = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(found)}
