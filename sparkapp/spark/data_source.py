"""The streaming source as Spark sees it: offsets are the coordinator's plan numbers, partitions are subtasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from sparkapp.spark.planner import PlannerClient, SubtaskSplits

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "kafkaspark"

SOURCE_DDL = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""Mirrors ``native.interface.SOURCE_SCHEMA``; the record as Spark's own Kafka source shows it."""


class KafkaSparkDataSource(DataSource):
    """``spark.readStream.format("kafkaspark")``; made by the engine alone.

    Options: ``job`` (the job's JSON), ``planner`` (socket path) and ``key`` (hex).
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SOURCE_DDL

    def streamReader(self, schema: StructType) -> KafkaSparkStreamReader:
        return KafkaSparkStreamReader(
            self.options["job"], PlannerClient(self.options["planner"], bytes.fromhex(self.options["key"]))
        )


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
        return {"plan": self._planner.call("initial")}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"plan": self._planner.call("latest", start["plan"])}

    def reportLatestOffset(self) -> dict[str, int]:
        """Spark shows it as ``sources[0].latestOffset`` of a query's progress; the one place it has for our numbers."""
        return dict(self._planner.call("progress"))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        work, columns = self._planner.call("partitions", start["plan"], end["plan"])
        return [SubtaskPartition(one, columns) for one in work]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Reads the subtask's splits with the worker's living consumer."""
        from sparkapp.spark import client_totals
        from sparkapp.spark.record_policy import life_of
        from sparkapp.spark.worker_clients import consumer_for, drop_consumer, job_of

        job = job_of(self._job)
        try:
            yield from consumer_for(job).read(partition.work.splits, columns=partition.columns)
            client_totals.publish(life_of(job))
        except BaseException:
            # Also when Spark stops pulling: what a half-read consumer has prefetched is not worth the risk.
            drop_consumer(job)
            raise

    def stop(self) -> None:
        self._planner.close()
