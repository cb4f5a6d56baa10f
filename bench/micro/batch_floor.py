"""The floor of a micro-batch: an empty round of planning, a stage in Python workers, and Spark's two logs.

Structured Streaming lets Python write in two places. One is ``foreachBatch`` with a ``mapInArrow`` stage, as in the
engine; the other is an Arrow stream writer. Both get the same session, the same Python source and no work. Rounds are
interleaved; read the ratio (ADR 1).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.spark.launch.session import create_session
from sparkapp.spark.launch.settings import session_settings


class Ticks(DataSource):
    """A source with a new tick at each request for its latest offset: ``rows`` rows in ``partitions`` tasks."""

    @classmethod
    def name(cls) -> str:
        return "ticks"

    def schema(self) -> str:
        return "value BINARY"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TickReader(int(self.options["partitions"]), int(self.options["rows"]))


class TickReader(DataSourceStreamReader):
    """Answers with the rows of a tick, without any I/O."""

    def __init__(self, partitions: int, rows: int) -> None:
        self._partitions = partitions
        self._rows = rows
        self._tick = 0

    def initialOffset(self) -> dict[str, int]:
        return {"tick": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        self._tick += 1
        return {"tick": self._tick}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": [b"x" * 100] * self._rows}, schema=pa.schema({"value": pa.binary()}))

    def commit(self, end: dict[str, int]) -> None:
        pass


class Nowhere(DataSource):
    """A sink that counts."""

    @classmethod
    def name(cls) -> str:
        return "nowhere"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return CountingWriter()


class CountingWriter(DataSourceStreamArrowWriter):
    """Reads all batches and writes nothing."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


def _for_each(frame: DataFrame, _: int) -> None:
    frame.mapInArrow(_counted, "rows BIGINT").collect()


def measure(spark: SparkSession, way: str, *, partitions: int, rows: int, batches: int) -> list[int]:
    """Durations in milliseconds of ``batches`` micro-batches, after three more to warm up.

    :param way: ``foreachBatch`` or the stream writer.
    """
    source = spark.readStream.format("ticks").options(partitions=partitions, rows=rows).load()
    writer = source.writeStream.option("checkpointLocation", Path(tempfile.mkdtemp(prefix="floor-")).as_uri())
    query = (writer.foreachBatch(_for_each) if way == "foreachBatch" else writer.format("nowhere")).start()
    seen: dict[int, int] = {}
    try:
        while len(seen) < batches + 3 and query.isActive:
            time.sleep(0.2)
            seen |= {batch["batchId"]: batch["durationMs"]["triggerExecution"] for batch in query.recentProgress}
    finally:
        query.stop()
    return [duration for _, duration in sorted(seen.items())][3 : batches + 3]


def main() -> None:
    """Runs the bench of the options and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rows", type=int, default=10, help="rows in each task")
    parser.add_argument("--batches", type=int, default=20, help="micro-batches in each round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers="none:1"), source=Source(topics=("in",), group_id="g"),
        transform=Transform(), sink=Sink(topic="out", transactional_id_prefix="p"), parallelism=options.partitions,
    )  # fmt: skip
    job = Job(namespace="bench", name="floor", uid="u", generation=1, attempt=1, spec=spec)
    spark = create_session(session_settings(job))
    spark.dataSource.register(Ticks)
    spark.dataSource.register(Nowhere)
    found: dict[str, list[int]] = {"foreachBatch": [], "stream writer": []}
    for number in range(options.rounds):
        for way, durations in found.items():
            more = measure(spark, way, partitions=options.partitions, rows=options.rows, batches=options.batches)
            durations.extend(more)
            print(f"round {number + 1}: {way}: median {statistics.median(more):.0f} ms", flush=True)
    medians = {way: statistics.median(durations) for way, durations in found.items()}
    for way, durations in found.items():
        low, high = min(durations), max(durations)
        print(f"{way:<14} median {medians[way]:.0f} ms (lowest {low}, highest {high}, {len(durations)} batches)")
    print(f"foreachBatch / stream writer: {medians['foreachBatch'] / medians['stream writer']:.2f}")
    spark.stop()


if __name__ == "__main__":
    main()
