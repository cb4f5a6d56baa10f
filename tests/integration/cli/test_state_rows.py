"""``kafkaspark state read`` and ``state diff``: rows of Spark's own files are what plain Python computes."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafkaspark.__main__ import main
from kafkaspark.local.spark import small_session
from localcluster.objectstore.server import BUCKET, ObjectStoreServer
from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.checkpoint.store import FileStore
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.job.sections.state_storage import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, S3Storage
from sparkapp.model.job.spark_settings import STATE
from sparkapp.spark.state import query_log
from sparkapp.spark.state.object_store.downloaded_state import download
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.state_reader import Selection, StateAt, StateReader, Store
from tests.support.jobs.local_job import environment

pytestmark = pytest.mark.spark

_PROCESSOR = """
from pyspark.sql.streaming import StatefulProcessor

class Sums(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.total = handle.getValueState("total", "n LONG, s LONG")
        self.seen = handle.getMapState("seen", "id LONG", "ms LONG")

    def handleInputRows(self, key, rows, timers):
        for row in rows:
            n, s = self.total.get() if self.total.exists() else (0, 0)
            self.total.update((n + 1, s + row.id))
            self.seen.updateValue((row.id,), (row.ms,))
            self.handle.registerTimer(row.ms + 3_600_000)
        return iter(())

    def close(self):
        pass
"""
START = 1_700_000_000_000
FIRST, SECOND = range(12), range(12, 20)
"""Ids of two batches. An id has one key of five, and a second of time."""


def put(folder: Path, name: str, ids: range) -> None:
    rows = [{"id": number, "k": f"k{number % 5}", "ms": START + number * 1000} for number in ids]
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("\n".join(json.dumps(row) for row in rows))
    (folder / f".{name}").rename(folder / name)


def transformed(spark: SparkSession, source: Path, processor: Any) -> DataFrame:
    stream = spark.readStream.schema("id LONG, k STRING, ms LONG").option("maxFilesPerTrigger", 1).json(str(source))
    events = stream.withColumn("at", f.timestamp_millis("ms")).withWatermark("at", "1 hour")
    counts = events.groupBy(f.window("at", "1 day"), "k").agg(f.count("*").alias("n"))
    counts = counts.select(f.concat_ws(" ", "k", "n").alias("value"))
    left = events.select("id", "at", "k")
    right = events.where("id % 2 = 0").select(f.col("id").alias("other"), f.col("at").alias("then"))
    pairs = left.join(right, f.expr("id = other AND then >= at AND then <= at + INTERVAL 1 HOUR"))
    sums = events.groupBy("k").transformWithState(
        statefulProcessor=processor.Sums(), outputStructType="value STRING", outputMode="Append", timeMode="EventTime"
    )
    return counts.unionByName(pairs.select(f.col("k").alias("value"))).unionByName(sums)


@dataclass(frozen=True)
class Job:
    """A query with two checkpoints of state, the first of them retained.

    :param options: that name the job. :param reader: in a session that is open.
    :param ends: each checkpoint with the ids that it has read.
    """

    options: list[str]
    reader: StateReader
    ends: list[tuple[StateAt, range]]
    stores: list[Store]

    def operator(self, kind: str) -> int:
        return next(each.operator for each in self.stores if each.kind == kind)

    def rows(self, at: StateAt, kind: str, store: str = "", **which: Any) -> list[dict[str, Any]]:
        found, more = self.reader.rows(at, Selection(self.operator(kind), store, **which), limit=100)
        assert not more
        return found

    def changes(self, kind: str, store: str, **which: Any) -> list[dict[str, Any]]:
        (before, _), (after, _) = self.ends
        return self.reader.changes(before, after, Selection(self.operator(kind), store, **which), limit=100)[0]


COUNT, JOIN, CUSTOM = "stateStoreSave", "symmetricHashJoin", "transformWithStateInPySparkExec"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    folder = tmp_path_factory.mktemp("job")
    query = folder / "query"
    with pytest.MonkeyPatch.context() as patched:
        for name in ("SPARK_HOME", "JAVA_TOOL_OPTIONS", "KAFKASPARK_CLASSES"):
            patched.setenv(name, environment()[name])
        spark = small_session(folder)
        for name, value in STATE.items():
            spark.conf.set(name, value)
        processor = types.ModuleType("__main__")  # its class is pickled by value
        exec(compile(_PROCESSOR, "processor", "exec"), processor.__dict__)
        put(folder / "in", "1.json", FIRST)
        result = transformed(spark, folder / "in", processor)
        stream = result.writeStream.format("noop").option("checkpointLocation", str(query / "attempt-1")).start()
        try:
            stream.processAllAvailable()
            first = last_batch(query)
            put(folder / "in", "2.json", SECOND)
            stream.processAllAvailable()
        finally:
            stream.stop()
        texts = [document(query, batch) for batch in (first, last_batch(query))]
        FileStore(folder / "state").write(encode(texts[1]), expected="0")
        kept = encode_retained(retained(texts[0], engine=texts[0].engine))
        FolderRetainedStore.next_to(folder / "state").change({retained_key(texts[0].checkpoint_id): kept}, [])
        ends = [StateAt(each.checkpoint_id, each.engine, query) for each in texts]
        (folder / "scratch").mkdir()
        reader = StateReader(spark, folder / "scratch")
        options = ["--state", str(folder / "state"), "--folder", str(query), "--checkpoint", str(first + 1)]
        yield Job(options, reader, list(zip(ends, (FIRST, range(20)), strict=True)), reader.stores(ends[1]))
        spark.stop()


def last_batch(query: Path) -> int:
    return max(int(file.name) for file in (query / "attempt-1/commits").iterdir() if file.name.isdigit())


def document(query: Path, batch: int) -> CheckpointDocument:
    """Checkpoint ``batch + 1`` of a query that keeps state from its first batch on."""
    engine = query_log.EngineState(batch, query_log.read_metadata(query / "attempt-1", batch), attempt=1)
    return CheckpointDocument(
        job_uid="uid", attempt=1, checkpoint_id=batch + 1, created_at="2026-11-29T09:00:00Z", parallelism=2,
        prefix="p", engine=query_log.encode_engine(engine), engine_has_state=True,
    )  # fmt: skip


def test_operators_and_their_stores_are_listed(job: Job) -> None:
    assert {(each.kind, each.name) for each in job.stores} == {
        (COUNT, ""), (JOIN, "left"), (JOIN, "right"), (CUSTOM, "total"), (CUSTOM, "seen"), (CUSTOM, "timers"),
    }  # fmt: skip
    assert {each.partitions for each in job.stores} == {2}


@pytest.mark.parametrize("end", [0, 1], ids=["retained", "current"])
def test_rows_of_every_kind_of_state_are_read(job: Job, end: int) -> None:
    at, ids = job.ends[end]
    of_key = {f"k{key}": [number for number in ids if number % 5 == key] for key in range(5)}
    counted = {row["key"]["k"]: [*row["value"].values()] for row in job.rows(at, COUNT)}
    assert counted == {key: [len(numbers)] for key, numbers in of_key.items()}
    even = [number for number in ids if number % 2 == 0]  # Spark filters both sides, since their ids are equal
    assert sorted(row["value"]["id"] for row in job.rows(at, JOIN, "left")) == even
    assert sorted(row["value"]["other"] for row in job.rows(at, JOIN, "right")) == even
    total = {row["key"]["k"]: row["value"] for row in job.rows(at, CUSTOM, "total")}
    assert total == {key: {"n": len(numbers), "s": sum(numbers)} for key, numbers in of_key.items()}
    assert len(job.rows(at, CUSTOM, "seen")) == len(job.rows(at, CUSTOM, "timers")) == len(ids)


def test_a_key_and_a_partition_are_selected(job: Job) -> None:
    at, _ = job.ends[1]
    (only,) = job.rows(at, CUSTOM, "total", key="k3")
    assert (only["key"], only["value"]) == ({"k": "k3"}, {"n": 4, "s": 3 + 8 + 13 + 18})
    assert job.rows(at, CUSTOM, "total", key='{"k": "k3"}') == [only]
    there = job.rows(at, CUSTOM, "total", partition=only["partition"])
    assert only in there
    assert {row["partition"] for row in there} == {only["partition"]}


def test_checkpoints_are_compared(job: Job) -> None:
    changed = {"change": "changed", "key": {"k": "k3"}, "before": {"n": 2, "s": 11}, "after": {"n": 4, "s": 42}}
    assert job.changes(CUSTOM, "total", key="k3") == [changed]
    added = job.changes(JOIN, "left")
    assert {row["change"] for row in added} == {"added"}
    assert sorted(row["after"]["id"] for row in added) == [number for number in SECOND if number % 2 == 0]


def test_a_bucket_has_the_same_rows_as_a_volume(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of the current checkpoint, out of all that Spark has left in the folder of its attempt."""
    monkeypatch.setenv(ACCESS_KEY_VARIABLE, "user")
    monkeypatch.setenv(SECRET_KEY_VARIABLE, "of a test")
    query, (current, _) = Path(job.options[3]), job.ends[1]
    with ObjectStoreServer(tmp_path) as server:
        storage = S3Storage(bucket=BUCKET, endpoint=server.endpoint, path_style_access=True)
        store = ObjectStore.of(storage, "uid")
        for file in (query / "attempt-1/state").rglob("*"):
            if file.is_file() and not file.name.endswith(".crc"):
                store.write(str(file.relative_to(query)), file.read_bytes())
        download(store, current.checkpoint_id, current.engine, tmp_path / "downloaded")
    there = replace(current, folder=tmp_path / "downloaded")
    (tmp_path / "scratch").mkdir()
    reader = StateReader(job.reader._spark, tmp_path / "scratch")
    for kind, name in ((COUNT, ""), (JOIN, "right"), (CUSTOM, "seen"), (CUSTOM, "timers")):
        found, _ = reader.rows(there, Selection(job.operator(kind), name), limit=100)
        assert found == job.rows(current, kind, name)
        assert found


def test_the_command_is_bounded_and_refuses_what_is_not_there(job: Job, capsys: Any) -> None:
    """At the end of the module: the command stops the session of this process."""
    join = str(job.operator(JOIN))
    for options, said in (
        (["read", "--checkpoint", "99"], "checkpoint 99 is not retained"),
        (["read", "--limit", "0"], "--limit 0 is not between 1 and"),
    ):
        assert main(["state", options[0], *job.options, *options[1:]]) == 1
        answer = capsys.readouterr()
        assert said in answer.err
        assert answer.out == ""
    assert main(["state", "diff", *job.options[:4]]) == 1
    assert "diff compares two checkpoints" in capsys.readouterr().err
    assert main(["state", "read", *job.options, "--operator", join, "--store", "left", "--limit", "3"]) == 0
    answer = capsys.readouterr()
    assert len(answer.out.splitlines()) == 1 + 3
    assert "there are more rows: add --key or --partition" in answer.err
    assert main(["state", "read", *job.options, "--operator", join, "--store", "middle"]) == 1
    assert f"operator {join} has no store middle: it has left, right" in capsys.readouterr().err
