"""Which transforms write each row in the task that reads its record, by their plans alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.spark.frames.failed.letters_apart import planned
from sparkapp.spark.frames.query_plan import keeps_records
from sparkapp.spark.frames.records import decode_records, encode_records
from sparkapp.spark.tasks.data_source import FORMAT, KafkaSparkDataSource
from tests.support.jobs.plain_job import plain_spec

pytestmark = pytest.mark.spark

JOB = Job(
    namespace="n", name="j", uid="u", generation=1, attempt=1,
    spec=plain_spec(
        source=Source(topics=("t",), group_id="g", value_format=Format.JSON, value_schema="id BIGINT, l ARRAY<INT>"),
        record_errors=RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dead"),
    ),
)  # fmt: skip
KEEPS = (
    "SELECT key, value FROM source",
    "SELECT value.id AS value FROM source WHERE value.id > 7 AND topic LIKE 'a%'",
    "SELECT explode(value.l) AS value FROM source",
    "SELECT id AS value FROM source LATERAL VIEW explode(value.l) AS id",
    "WITH found AS (SELECT value.id AS id FROM source) SELECT id AS value FROM found WHERE id > 7",
    "SELECT value.id AS value FROM source WHERE value.id > (SELECT max(id) FROM names)",
    "SELECT /*+ BROADCAST(names) */ name AS value FROM source JOIN names ON value.id = id",
    "SELECT /*+ BROADCAST(names) */ name AS value FROM source LEFT JOIN names ON value.id = id",
    "SELECT /*+ BROADCAST(names) */ name AS value FROM names JOIN source ON value.id > id",
)
MOVES = (
    "SELECT /*+ REPARTITION(2, value) */ value FROM source",
    "SELECT /*+ COALESCE(1) */ value FROM source",
    "SELECT value.id AS value FROM source LIMIT 7",
    "SELECT DISTINCT value.id AS value FROM source",
    "SELECT count(*) AS value FROM source GROUP BY value.id",
    "SELECT value.id AS value FROM source UNION ALL SELECT id FROM source LATERAL VIEW explode(value.l) AS id",
    "SELECT a.value FROM source AS a JOIN source AS b ON a.value.id = b.value.id",
    # Spark decides by the sizes of each batch.
    "SELECT name AS value FROM source JOIN names ON value.id = id",
    "SELECT value.id AS value FROM source WHERE value.id IN (SELECT id FROM names)",
    "SELECT name AS value FROM names",
)


def functions() -> dict[Callable[[DataFrame], DataFrame], bool]:
    def batches(source: DataFrame) -> DataFrame:
        return source.select("key").mapInArrow(lambda each: each, "value BINARY")

    def frames(source: DataFrame) -> DataFrame:
        return source.select("key").mapInPandas(lambda each: each, "value BINARY")

    def text(value: object) -> str:
        return str(value)

    def udf(source: DataFrame) -> DataFrame:
        return source.withColumn("value", f.udf(text, "string", useArrow=False)("value"))

    def watermark(source: DataFrame) -> DataFrame:
        return source.withWatermark("timestamp", "1 minute").select("value")

    def sample(source: DataFrame) -> DataFrame:
        return source.sample(0.5, seed=7)

    def repartition(source: DataFrame) -> DataFrame:
        return source.repartition(2)

    def distinct(source: DataFrame) -> DataFrame:
        return source.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["key"]).select("value")

    def groups(source: DataFrame) -> DataFrame:
        return source.select("key").groupBy("key").applyInPandas(lambda each: each, "value BINARY")

    stays = (batches, frames, udf, watermark, sample)
    return dict.fromkeys(stays, True) | dict.fromkeys((repartition, distinct, groups), False)


@pytest.fixture
def source(spark: SparkSession) -> DataFrame:
    spark.dataSource.register(KafkaSparkDataSource)
    spark.range(10).selectExpr("id", "CAST(id AS STRING) AS name").createOrReplaceTempView("names")
    return spark.readStream.format(FORMAT).options(job=encode_job(JOB), planner="nowhere").load()


def test_queries(spark: SparkSession, source: DataFrame) -> None:
    decode_records(source, JOB, lambda: None).createOrReplaceTempView("source")
    found = {query: keeps_records(encode_records(spark.sql(query), JOB.spec)) for query in (*KEEPS, *MOVES)}
    assert found == dict.fromkeys(KEEPS, True) | dict.fromkeys(MOVES, False)


def test_functions(source: DataFrame) -> None:
    records = decode_records(source, JOB, lambda: None)
    for function, keeps in functions().items():
        assert keeps_records(encode_records(function(records), JOB.spec)) is keeps, function.__name__


def test_a_stream_whose_letters_are_read_apart_has_no_stage_that_diverts(source: DataFrame) -> None:
    policies: list[OnRecordError] = []

    def plan(job: Job) -> DataFrame:
        policies.append(job.spec.record_errors.policy)
        return encode_records(decode_records(source, job, lambda: None).repartition(2), job.spec)

    result, reads_apart = planned(JOB, plan)
    assert reads_apart
    assert policies == [OnRecordError.DEAD_LETTER, OnRecordError.SKIP]
    assert "MapInArrow" not in str(result._jdf.queryExecution().analyzed().toString())
