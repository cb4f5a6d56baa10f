"""When query state is divided again, what is refused, and what of it the document gets."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import (
    KafkaSparkJobError,
    RepartitionRefused,
    StateStoreUnusable,
    VolumeFull,
    VolumeUnusable,
)
from sparkapp.model.job.spark_settings import PROVIDER, ROCKSDB, SHUFFLE_PARTITIONS
from sparkapp.model.job.spec import FOLLOW_PARALLELISM, Job
from sparkapp.spark.engine.micro_batch.repartition import Repartition, repartition, repartition_due
from sparkapp.spark.state.object_store.query_folder import StoredQueryFolder
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.query_folder import LocalQueryFolder
from sparkapp.spark.state.query_log import EngineState, encode_engine
from tests.support.jobs.plain_job import plain_spec
from tests.support.jobs.rocksdb_snapshot import snapshot
from tests.support.object_store.state_in_store import files, folder, store

__all__ = ["files", "folder", "store"]

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
KEY = {"type": "struct", "fields": [{"name": "k", "type": "string", "nullable": True, "metadata": {}}]}
NO_KEY: dict[str, object] = {"type": "struct", "fields": []}
BASE, CHECKPOINT = 9, 12
VERSION = CHECKPOINT - BASE


def job(partitions: str, parallelism: int = 1) -> Job:
    spec = plain_spec(state_claim="c", state_partitions=partitions, parallelism=parallelism)
    return Job(namespace="n", name="j", uid="uid", generation=1, attempt=4, spec=spec)


def engine(partitions: int, provider: str = ROCKSDB) -> EngineState:
    conf = {SHUFFLE_PARTITIONS: str(partitions), PROVIDER: provider}
    metadata = json.dumps({"batchWatermarkMs": 30, "conf": conf}, separators=(",", ":"))
    return EngineState(5, metadata, base=BASE, watermark=42, previous_watermark=20, attempt=3)


def document(state: EngineState, *, has_state: bool = True) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid="uid", attempt=4, checkpoint_id=CHECKPOINT, created_at="", parallelism=1, prefix="p",
        engine=encode_engine(state), engine_has_state=has_state,
    )  # fmt: skip


def put(folder: Path, operator: int, *partitions: int, key: object = KEY, version: int = VERSION) -> None:
    for partition in partitions:
        store = folder / "state" / str(operator) / str(partition)
        snapshot(store / f"{version}.zip")
    (folder / "state" / str(operator) / "_metadata").mkdir(exist_ok=True)
    schema = folder / "state" / str(operator) / "0" / "_metadata" / "schema"
    schema.parent.mkdir(exist_ok=True)
    value = {"type": "struct", "fields": []}
    schema.write_bytes(b"\0\2v2\0\x7f" + json.dumps(key, separators=(",", ":")).encode() + json.dumps(value).encode())


@pytest.mark.parametrize(
    ("partitions", "parallelism", "before", "expected"),
    [
        ("", 5, 2, None),
        ("2", 5, 2, None),
        ("5", 1, 2, Repartition(2, 5)),
        (FOLLOW_PARALLELISM, 5, 2, Repartition(2, 5)),
        (FOLLOW_PARALLELISM, 1, 5, Repartition(5, 1)),
        (FOLLOW_PARALLELISM, 2, 2, None),
        (FOLLOW_PARALLELISM, 5, 1, Repartition(1, 5)),
    ],
)
def test_state_is_divided_where_the_job_asks_for_another_number(
    partitions: str, parallelism: int, before: int, expected: Repartition | None, tmp_path: Path
) -> None:
    put(tmp_path, 0, *range(before))
    put(tmp_path, 1, *range(before))
    assert (
        repartition_due(job(partitions, parallelism), document(engine(before)), LocalQueryFolder(tmp_path)) == expected
    )


def test_a_job_without_state_has_nothing_to_divide(tmp_path: Path) -> None:
    assert repartition_due(job("5"), document(engine(2), has_state=False), LocalQueryFolder(tmp_path)) is None


def test_the_provider_in_memory_is_refused_and_the_remedy_keeps_the_state(tmp_path: Path) -> None:
    put(tmp_path, 0, 0, 1)
    with pytest.raises(RepartitionRefused, match=r"asks for 5 .* has 2: .* HDFSBackedStateStoreProvider") as caught:
        repartition_due(job("5"), document(engine(2, HDFS)), LocalQueryFolder(tmp_path))
    assert caught.value.remedy.startswith("remove spec.checkpoint.state.partitions")
    assert repartition_due(job("2"), document(engine(2, HDFS)), LocalQueryFolder(tmp_path)) is None


@pytest.mark.parametrize("before", [1, 2])
def test_a_total_keeps_its_partition_and_may_not_stand_next_to_keys(before: int, tmp_path: Path) -> None:
    """Spark would move its row to the partition of an empty key, where the operator does not look for it."""
    put(tmp_path, 0, 0, key=NO_KEY)
    assert repartition_due(job("5"), document(engine(before)), LocalQueryFolder(tmp_path)) is None
    put(tmp_path, 1, *range(before))
    with pytest.raises(RepartitionRefused, match="operator 0 keeps a single row without a key next to operators"):
        repartition_due(job("5"), document(engine(before)), LocalQueryFolder(tmp_path))


class FakeManager:
    """Spark's manager: notes its call, and writes what Spark does, as far as the test wants."""

    def __init__(self, folder: Path, *, writes: int, logged: int = 0, error: Exception | None = None) -> None:
        self.folder, self.writes, self.logged, self.error = folder, writes, logged, error
        self.log: dict[str, str] = {}

    def repartition(self, location: str, number: int) -> None:
        assert location == self.folder.as_uri()
        self.log = {str(f.relative_to(self.folder)): f.read_text() for f in sorted(self.folder.glob("*s/*"))}
        if self.error is not None:
            raise self.error
        put(self.folder, 0, *range(self.writes), version=VERSION + 1)
        (self.folder / "offsets" / str(VERSION)).write_text(f"v1\n{engine(self.logged or number).metadata}\n{{}}")


def run(manager: FakeManager) -> EngineState:
    put(manager.folder, 0, 0, 1)
    spark = cast("SparkSession", SimpleNamespace(_streamingCheckpointManager=manager))
    return repartition(spark, job("5"), document(engine(2)), LocalQueryFolder(manager.folder), Repartition(2, 5))


def test_the_next_checkpoint_has_the_new_number_and_the_same_watermarks(tmp_path: Path) -> None:
    manager = FakeManager(tmp_path, writes=5)
    made = run(manager)
    assert sorted(manager.log) == ["commits/2", "offsets/1", "offsets/2"], "of the document's last batch"
    assert manager.log["commits/2"].endswith('{"nextBatchWatermarkMs": 42}')
    assert made == replace(engine(5), previous_watermark=30, attempt=4)
    assert (made.batch_watermark, made.next_watermark) == (30, 42)


@pytest.mark.parametrize(("writes", "lacks"), [(4, "has no partition 4"), (0, "version 4 needs more")])
def test_state_that_is_not_whole_is_never_named(writes: int, lacks: str, tmp_path: Path) -> None:
    """The document's version is in another folder: the next attempt divides it again."""
    with pytest.raises(VolumeUnusable, match=f"version 4 of query state is not whole in file:///.*{lacks}") as caught:
        run(FakeManager(tmp_path, writes=writes))
    assert not caught.value.fatal


def test_a_log_with_another_number_is_never_named(tmp_path: Path) -> None:
    manager = FakeManager(tmp_path, writes=5, logged=4)
    with pytest.raises(VolumeUnusable, match="Spark's log has 4 partitions"):
        run(manager)


@pytest.mark.parametrize("lost", ["", "state/0/4/4.zip"])
def test_an_upload_that_fails_without_a_word_is_no_loss_of_state(lost: str, store: ObjectStore, folder: Path) -> None:
    own = folder / "attempt-4"
    put(own, 0, 0, 1)

    def divided(location: str, number: int) -> None:
        assert location == "s3a://bucket/team/state/uid/attempt-4"
        put(own, 0, *range(number), version=VERSION + 1)
        (own / "offsets" / str(VERSION)).write_text(f"v1\n{engine(number).metadata}\n{{}}")
        if lost:
            (own / lost).unlink()

    spark = cast("SparkSession", SimpleNamespace(_streamingCheckpointManager=SimpleNamespace(repartition=divided)))
    stored = StoredQueryFolder(store, "attempt-4", VERSION)
    with pytest.raises(StateStoreUnusable, match="operator 0 has no partition 4") if lost else nullcontext():
        repartition(spark, job("5"), document(engine(2)), stored, Repartition(2, 5))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("java.io.IOException: No space left on device", VolumeFull),
        (
            "x.Y: [STATE_REPARTITION_INVALID_CHECKPOINT.UNSUPPORTED_STATEFUL_OPERATOR] Unsupported operator x.",
            RepartitionRefused,
        ),
        ("the JVM says something else", KafkaSparkJobError),
    ],
)
def test_an_error_of_spark_has_its_reason(message: str, kind: type[Any], tmp_path: Path) -> None:
    with pytest.raises(KafkaSparkJobError) as caught:
        run(FakeManager(tmp_path, writes=5, error=Py4JError(message)))
    assert type(caught.value) is kind
