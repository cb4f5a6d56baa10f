"""Plans the transform: as Spark's streaming query, and as a batch over fixed offsets."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.engine.micro_batch.second_read import SecondRead
from sparkapp.spark.frames.arrow_batches import limit_stream
from sparkapp.spark.frames.failed.failed_records import failed_records_of
from sparkapp.spark.frames.failed.letters_apart import planned
from sparkapp.spark.frames.formats.json_columns import columns_to_read
from sparkapp.spark.frames.query_plan import has_processing_time, reads_of_source
from sparkapp.spark.frames.record_policy import attempt_key, without_letters
from sparkapp.spark.frames.records import decode_records, encode_records, letters_of
from sparkapp.spark.frames.transform import Function, apply_transform, refused_by_streaming
from sparkapp.spark.state import query_log
from sparkapp.spark.tasks import client_totals
from sparkapp.spark.tasks.data_source import FORMAT, KafkaSparkDataSource, table_of
from sparkapp.spark.tasks.planner_socket import PlannerServer

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """Spark's query and the server that its source asks."""

    query: StreamingQuery
    server: PlannerServer


def start_query(
    job: Job,
    *,
    spark: SparkSession,
    name: str,
    function: Function | None,
    planner: MicroBatchPlanner,
    run_batch: Callable[[DataFrame, int], None],
    log: query_log.QueryLog,
    checkpoint_id: int,
    second_read: SecondRead,
) -> RunningQuery:
    """Source, transform, sink columns, then the query with its log rebuilt; called by the engine once.

    :param name: of the query, by which batches find their own plan.
    :param function: the user's; None for SQL or no transform.
    :param run_batch: called with each micro-batch and its number.
    :param checkpoint_id: the restored checkpoint.
    :param second_read: its ``columns`` are set here.
    :raises TransformError: and ConfigurationError: the transform does not plan, or a stream cannot run it.
    :raises VolumeFull: and VolumeUnusable, StateStoreUnusable: the query log cannot be written.
    """
    server = PlannerServer(planner, directory=Path(tempfile.mkdtemp(prefix="planner-")))
    spark.dataSource.register(KafkaSparkDataSource)
    options = {"job": encode_job(job), "planner": server.address}
    publish = partial(client_totals.publish, attempt_key(job))
    failed = failed_records_of(job, publish)
    source = spark.readStream.format(FORMAT).options(**options).load()

    def plan(decoding: Job) -> DataFrame:
        records = decode_records(source, decoding, publish)
        return encode_records(apply_transform(records, job.spec, function, spark, failed=failed), job.spec)

    result, reads_letters_apart = planned(job, plan)
    planner.columns = columns_to_read(result, job.spec)
    if reads_letters_apart:
        second_read.columns = columns_to_read(letters_of(source, job, result.schema), job.spec)
    planner.has_timers = has_processing_time(result)
    limit_stream(spark, planner.columns)
    LOG.info("columns read from Kafka: %s", ", ".join(sorted(planner.columns)))
    log.folder.rebuild(
        job_uid=job.uid, checkpoint_id=checkpoint_id, engine=log.restored, sources=reads_of_source(result)
    )
    writer = result.writeStream.outputMode(job.spec.transform.output_mode.value)
    writer = writer.foreachBatch(run_batch).option("checkpointLocation", log.folder.uri)
    with refused_by_streaming():
        return RunningQuery(writer.queryName(name).start(), server)


def run_over(
    job: Job,
    splits: Sequence[KafkaPartitionSplit],
    *,
    spark: SparkSession,
    function: Function | None,
    columns: Collection[str],
) -> None:
    """Runs the transform over fixed splits as a batch, and drops its rows; for the search for failing records.

    Records that do not parse are left out as in the job, and no policy writes anything.

    :param columns: of the source that the transform uses.
    :raises KafkaSparkJobError: and exceptions of Spark: those of plan and tasks.
    """
    job = replace(job, spec=replace(job.spec, record_errors=without_letters(job.spec.record_errors)))
    records = decode_records(table_of(job, [[split] for split in splits], spark, columns), job, lambda: None)
    result = encode_records(apply_transform(records, job.spec, function, spark), job.spec)
    result.write.format("noop").mode("overwrite").save()


def key_at(job: Job, split: KafkaPartitionSplit, *, spark: SparkSession) -> bytes | None:
    """The key of the only record of a split; None without a key."""
    rows = table_of(job, [[split]], spark, ["key"]).select("key").collect()
    return None if not rows or rows[0].key is None else bytes(rows[0].key)
