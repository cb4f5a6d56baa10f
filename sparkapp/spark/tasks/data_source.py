"""Spark's source: as a stream its offsets are the planner's plan numbers, as a table its options have fixed offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from sparkapp.dataplane.interface import ALL_COLUMNS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_of
from sparkapp.model.job.codec import decode_job
from sparkapp.spark.frames.formats.json_columns import JsonReader, source_ddl
from sparkapp.spark.tasks.planner_socket import PlannerClient, SubtaskSplits

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "kafkaspark"

SOURCE_DDL = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""``dataplane.interface.SOURCE_SCHEMA`` as DDL: the columns of Spark's own Kafka source."""


class KafkaSparkDataSource(DataSource):
    """``spark.readStream.format("kafkaspark")``; used by the engine's query.

    Options: ``job`` (the job's JSON), for a stream ``planner`` (socket path), for a table ``splits`` (JSON) and
    ``columns``. Spark prints them in plans, so none is a secret.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name in ``readStream.format``."""
        return FORMAT

    def schema(self) -> str:
        """The columns of the source, as DDL."""
        return SOURCE_DDL + source_ddl(decode_job(self.options["job"]).spec)

    def streamReader(self, schema: StructType) -> KafkaSparkStreamReader:
        """The reader of a query; Spark pickles it to its reader process and to the executors."""
        return KafkaSparkStreamReader(self.options["job"], PlannerClient(self.options["planner"]))

    def reader(self, schema: StructType) -> KafkaSparkReader:
        """The reader of a table, which the search for a failing record reads."""
        columns = frozenset(self.options["columns"].split(","))
        return KafkaSparkReader(self.options["job"], splits_of(json.loads(self.options["splits"])), columns)


class SubtaskPartition(InputPartition):
    """One task's work, pickled to the executor."""

    def __init__(self, work: SubtaskSplits, columns: frozenset[str]) -> None:
        super().__init__(work.subtask)
        self.work = work
        self.columns = columns


class KafkaSparkStreamReader(DataSourceStreamReader):
    """Offset methods run on the driver, in Spark's reader process; :meth:`read` runs in an executor's worker."""

    def __init__(self, job: str, planner: PlannerClient) -> None:
        self._job = job
        self._planner = planner

    def initialOffset(self) -> dict[str, int]:
        """The plan number of a new query."""
        return {"plan": self._planner.call("initial")}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The next plan number, or ``start`` while no checkpoint is due; asked several times a second."""
        return {"plan": self._planner.call("latest", start["plan"])}

    def reportLatestOffset(self) -> dict[str, int]:
        """The planner's numbers, which Spark shows as ``sources[0].latestOffset`` of a query's progress."""
        return dict(self._planner.call("progress"))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """A Spark partition for each subtask with splits; asked once a batch."""
        work, columns = self._planner.call("partitions", start["plan"], end["plan"])
        return [SubtaskPartition(splits, columns) for splits in work]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Reads the subtask's splits with the worker's open consumer."""
        return _read(self._job, partition)

    def stop(self) -> None:
        """Closes the connection to the planner, at the query's end."""
        self._planner.close()


class KafkaSparkReader(DataSourceReader):
    """Reads fixed splits once. Spark pickles it to the executors."""

    def __init__(self, job: str, splits: Sequence[KafkaPartitionSplit], columns: frozenset[str]) -> None:
        self._job = job
        self._splits = splits
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """A Spark partition for each split."""
        return [
            SubtaskPartition(SubtaskSplits(number, (split,)), self._columns)
            for number, split in enumerate(self._splits)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Reads a split with the worker's open consumer."""
        return _read(self._job, partition)


def _read(job_text: str, partition: Any) -> Iterator[pa.RecordBatch]:
    from sparkapp.spark.frames.failed.left_out import left_out_of_task, without_left_out
    from sparkapp.spark.frames.record_policy import attempt_key
    from sparkapp.spark.tasks import client_totals
    from sparkapp.spark.tasks.worker_clients import consumer_for, drop_consumer, job_of

    job = job_of(job_text)
    left_out = left_out_of_task(job)
    try:
        # Letters have the whole record, also what the transform does not use.
        read = ALL_COLUMNS if left_out else partition.columns & ALL_COLUMNS
        records = consumer_for(job).read(partition.work.splits, columns=read)
        kept = records if left_out is None else without_left_out(job, left_out, records)
        yield from map(JsonReader(job, partition.columns).added, kept)
        client_totals.publish(attempt_key(job))
    except BaseException:
        # Also when Spark stops reading early: the consumer has prefetched records of the old splits.
        drop_consumer(job)
        raise
