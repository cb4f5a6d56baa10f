"""Spark's source: as a stream its offsets are the planner's plan numbers, as a table its options have fixed offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from sparkapp.dataplane.interface import ALL_COLUMNS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, split_rows, splits_of
from sparkapp.model.job.codec import decode_job, encode_job
from sparkapp.model.job.spec import Job
from sparkapp.spark.frames.formats.json_columns import JsonReader, source_ddl
from sparkapp.spark.tasks.planner_socket import PlannerClient, SubtaskSplits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
        """The reader of a table."""
        columns = frozenset(self.options["columns"].split(","))
        groups = [splits_of(rows) for rows in json.loads(self.options["splits"])]
        return KafkaSparkReader(self.options["job"], groups, columns)


def table_of(
    job: Job, groups: Iterable[Sequence[KafkaPartitionSplit]], spark: SparkSession, columns: Iterable[str]
) -> DataFrame:
    """The records of fixed splits, a Spark partition for each group of them; called by the engine.

    :param columns: of the source; others are null.
    """
    splits = json.dumps([split_rows(group) for group in groups])
    options = {"job": encode_job(job), "splits": splits, "columns": ",".join(columns)}
    return spark.read.format(FORMAT).options(**options).load()


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
        return _read(self._job, partition, leaves_out=True)

    def stop(self) -> None:
        """Closes the connection to the planner, at the query's end."""
        self._planner.close()


class KafkaSparkReader(DataSourceReader):
    """Reads fixed splits once. Spark pickles it to the executors."""

    def __init__(self, job: str, groups: Sequence[tuple[KafkaPartitionSplit, ...]], columns: frozenset[str]) -> None:
        self._job = job
        self._groups = groups
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """A Spark partition for each group of splits."""
        return [
            SubtaskPartition(SubtaskSplits(number, splits), self._columns) for number, splits in enumerate(self._groups)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Reads a group of splits with the worker's open consumer."""
        return _read(self._job, partition, leaves_out=False)


def _read(job_text: str, partition: Any, *, leaves_out: bool) -> Iterator[pa.RecordBatch]:
    """
    :param leaves_out: whether the records are left out for which the transform fails.
    """
    from sparkapp.spark.frames.failed.left_out import left_out_of_task, without_left_out
    from sparkapp.spark.frames.record_policy import attempt_key
    from sparkapp.spark.tasks import client_totals
    from sparkapp.spark.tasks.worker_clients import consumer_for, drop_consumer, job_of

    job = job_of(job_text)
    left_out = left_out_of_task(job) if leaves_out else None
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
