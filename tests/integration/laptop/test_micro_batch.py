"""Jobs of the micro-batch engine over given records, by the Spark of this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from kafkaspark.testing import Output, Record
from sparkapp.model.errors import ConfigurationError, RecordError, TransformError, TransformFailed
from tests.support.kubernetes.operator_fixture import job_body

pytestmark = pytest.mark.spark

Run = Callable[..., Output]
Job = Callable[..., dict[str, Any]]
JSON = {"topics": ["orders"], "format": {"value": "json", "valueSchema": "id BIGINT, at TIMESTAMP"}}
UDF = """
from pyspark.sql import functions as f

@f.udf("string")
def risky(number):
    return str(10 // number)

def go(source):
    return source.select("key", risky("value.id").alias("value"))
"""
COUNT = """
from pyspark.sql import functions as f

def go(source):
    times = source.select("value.*").withWatermark("at", "10 seconds")
    counts = times.groupBy(f.window("at", "1 minute")).count()
    return counts.select(f.col("window.start").cast("string").alias("key"), f.col("count").alias("value"))
"""
VOLUME = {"stateVolume": {"claimName": "state"}}


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """``python(code, **spec)``: a resource with the function ``go`` of this code."""
    monkeypatch.chdir(tmp_path)

    def made(code: str, **spec: Any) -> dict[str, Any]:
        (tmp_path / "mine.py").write_text(code)
        return job_body(**{"source": JSON, "transform": {"python": {"function": "mine:go"}}, **spec})

    return made


def sql(query: str, **spec: Any) -> dict[str, Any]:
    return job_body(**{"source": JSON, "transform": {"sql": {"query": query}}, **spec})


def at(second: int) -> dict[str, Any]:
    return {"id": second, "at": f"2026-01-01T12:{second // 60:02}:{second % 60:02}Z"}


def test_a_function_of_module_level_names_the_record_that_fails(run_transform: Run, python: Job) -> None:
    """It is the first test of this file, so Spark has no session before."""
    job = python(UDF)
    assert [record.text for record in run_transform(job, [at(1), at(5)])] == ["10", "2"]
    with pytest.raises(TransformFailed) as failed:
        run_transform(job, [at(3), at(2), at(0), at(1)])
    message = r"ZeroDivisionError: integer division or modulo by zero (mine.py:6 in risky), over record 3: "
    assert failed.value.message.startswith(message)


def test_keys_headers_and_columns_of_every_type(run_transform: Run) -> None:
    query = "SELECT key, headers, topic, struct(value.id, offset) AS value FROM source"
    written = run_transform(sql(query), [Record({"id": 1}, "a", {"h": "x"}), Record({"id": 2}, topic="others")])
    assert written == [Record({"id": 1, "offset": 0}, "a", {"h": "x"}), Record({"id": 2, "offset": 0})]
    assert {record.topic for record in written} == {"enriched"}
    routed = run_transform(
        sql(query, sink={"topic": "out", "topicFrom": "Column"}), [Record({"id": 2}, topic="others")]
    )
    assert [record.topic for record in routed] == ["others"]


def test_records_that_do_not_parse(run_transform: Run) -> None:
    query, records = "SELECT value.id AS value FROM source", [{"id": 1}, "nope", {"id": 2}]
    with pytest.raises(RecordError, match="topic orders, partition 0, offset 1: the value is not JSON"):
        run_transform(sql(query), records)
    skipped = run_transform(sql(query, onRecordError="Skip"), records)
    assert (skipped, skipped.skipped) == ([Record("1"), Record("2")], 1)
    for _ in range(2):  # letters of an earlier run are gone
        diverted = run_transform(sql(query, onRecordError="DeadLetter", deadLetter={"topic": "dead"}), records)
        assert diverted == [Record("1"), Record("2")]
        assert [(letter.value, letter.topic) for letter in diverted.dead_letters] == [(b"nope", "dead")]


def test_dead_letters_with_a_shuffle_and_with_state_are_those_of_the_job(run_transform: Run, python: Job) -> None:
    letters = {"onRecordError": "DeadLetter", "deadLetter": {"topic": "dead"}}
    checkpoints = [[{"id": 1}, b"nope"], [b"", {"id": 2}, b"{"]]
    shuffled = sql("SELECT /*+ REPARTITION(2) */ value.id AS value FROM source", **letters)
    written = run_transform(shuffled, checkpoints=checkpoints)
    assert sorted(record.text for record in written) == ["1", "2"]
    assert [(letter.value, letter.topic) for letter in written.dead_letters] == [
        (b"nope", "dead"), (b"", "dead"), (b"{", "dead"),
    ]  # fmt: skip
    offsets = [dict(letter.headers)["kafkaspark.error.offset"] for letter in written.dead_letters]
    assert offsets == [b"1", b"2", b"4"]
    windows = run_transform(python(COUNT, checkpoint=VOLUME, **letters), [at(1), b"nope", at(75)])
    assert (windows, windows.skipped) == ([Record("1", "2026-01-01 12:00:00")], 0)
    assert [letter.value for letter in windows.dead_letters] == [b"nope"]


def test_failing_records_of_a_shuffle_are_refused_as_by_the_job(run_transform: Run) -> None:
    job = sql("SELECT /*+ REPARTITION(2) */ value.id AS value FROM source", onTransformError="Skip")
    with pytest.raises(ConfigurationError, match="onTransformError does not work with this transform"):
        run_transform(job, [{"id": 1}])


def test_a_window_is_written_when_the_watermark_has_passed_it(run_transform: Run, python: Job) -> None:
    job = python(COUNT, checkpoint=VOLUME)
    assert run_transform(job, [at(1), at(2), at(59)]) == []
    assert run_transform(job, [at(1), at(2), at(75)]) == [Record("2", "2026-01-01 12:00:00")]
    checkpoints = [[at(1), at(75)], [at(2), at(150)]]
    written = run_transform(job, checkpoints=checkpoints)
    assert (written, written.late) == ([Record("1", "2026-01-01 12:00:00"), Record("1", "2026-01-01 12:01:00")], 1)


def test_another_run_of_a_job_takes_few_calls_of_the_jvm(run_transform: Run, python: Job) -> None:
    """They were a part of the time of a test. Seen: 2,479 calls, a fourth of which read Spark's settings in turn."""
    job, checkpoints, calls = python(COUNT, checkpoint=VOLUME), [[at(1), at(75)], [at(2), at(150)]], []
    run_transform(job, checkpoints=checkpoints)
    send = ClientServerConnection.send_command

    def counted(connection: ClientServerConnection, command: str) -> Any:
        calls.append(command)
        return send(connection, command)

    with patch.object(ClientServerConnection, "send_command", counted):
        run_transform(job, checkpoints=checkpoints)
    assert 100 < len(calls) < 1400


def test_state_needs_a_volume_as_in_the_cluster(run_transform: Run, python: Job) -> None:
    with pytest.raises(ConfigurationError, match="the job has no place for it") as refused:
        run_transform(python(COUNT), [at(1)])
    assert "spec.checkpoint.stateVolume.claimName" in refused.value.remedy


def test_an_operator_that_no_stream_has_is_refused(run_transform: Run) -> None:
    with pytest.raises(TransformError, match="the transform cannot run on a stream: "):
        run_transform(sql("SELECT value.id AS value FROM source ORDER BY value.id"), [at(1)])
    with pytest.raises(TransformError, match=r"the transform does not plan: .*nothing"):
        run_transform(sql("SELECT nothing AS value FROM source"), [at(1)])
    with pytest.raises(TransformError, match="no column 'value'"):
        run_transform(sql("SELECT key FROM source"), [at(1)])


def test_records_for_which_an_arrow_function_raises(run_transform: Run, python: Job) -> None:
    code = (
        "import pyarrow as pa\n"
        "def go(batch):\n"
        "    values = [str(1 // value['id']) for value in batch.column('value').to_pylist()]\n"
        "    return batch.set_column(1, 'value', pa.array(values))\n"
    )
    arrow = {"transform": {"arrow": {"function": "mine:go"}}}
    with pytest.raises(TransformFailed, match=r"topic orders, partition 0, offset 1: ZeroDivisionError.*record 2: "):
        run_transform(python(code, **arrow), [at(1), at(0)])
    skipped = run_transform(python(code, **arrow, onTransformError="Skip"), [at(1), at(0)])
    assert (skipped, skipped.skipped) == ([Record("1")], 1)
    letters = {"onTransformError": "DeadLetter", "deadLetter": {"topic": "dead"}}
    diverted = run_transform(python(code, **arrow, **letters), [at(0), at(1)])
    assert (diverted, [letter.json["id"] for letter in diverted.dead_letters]) == ([Record("1")], [0])


def test_records_for_which_a_plan_fails(run_transform: Run, python: Job) -> None:
    records = [at(1), at(0), at(5), at(0)]
    skipped = run_transform(python(UDF, onTransformError="Skip"), records)
    assert ([record.text for record in skipped], skipped.skipped) == (["10", "2"], 2)
    letters = {"onTransformError": "DeadLetter", "deadLetter": {"topic": "dead"}}
    diverted = run_transform(python(UDF, **letters), records)
    assert [record.text for record in diverted] == ["10", "2"]
    assert [(letter.topic, letter.json["id"]) for letter in diverted.dead_letters] == [("dead", 0), ("dead", 0)]
    told = [dict(letter.headers) for letter in diverted.dead_letters]
    assert [each["kafkaspark.error.offset"] for each in told] == [b"1", b"3"]
    assert told[0]["kafkaspark.error.exception.class.name"] == b"ZeroDivisionError"
    query = sql("SELECT CAST(10 DIV value.id AS STRING) AS value FROM source", **letters)
    assert [record.text for record in run_transform(query, records)] == ["10", "2"]


def test_workers_have_the_code_and_the_variables_of_each_job(run_transform: Run, python: Job) -> None:
    code = (
        "import os\nimport pyarrow as pa\n"
        "def work(batches):\n"
        "    for batch in batches:\n"
        "        yield pa.record_batch([[os.environ['R'] + '{}']], ['value'])\n"
        "def go(source):\n"
        "    return source.mapInArrow(work, 'value STRING')\n"
    )
    for region in ("eu", "us"):
        env = {"env": [{"name": "R", "value": region}]}
        written = run_transform(python(code.format(region.upper()), executor=env), [at(1)])
        assert [record.text for record in written] == [region + region.upper()]


def test_the_session_is_the_jobs_own(run_transform: Run, python: Job) -> None:
    code = (
        "from pyspark.sql import SparkSession\n"
        "def go(source):\n"
        "    SparkSession.builder.getOrCreate().udf.register('twice', lambda number: str(2 * number))\n"
        "    return source.selectExpr('twice(value.id) AS value')\n"
    )
    for _ in range(2):
        assert run_transform(python(code), [at(4)]) == [Record("8")]
    with pytest.raises(TransformError, match=r"does not plan: .*twice"):
        run_transform(sql("SELECT twice(value.id) AS value FROM source"), [at(4)])


def test_settings_of_a_job_are_of_no_other_job(run_transform: Run) -> None:
    query = "SELECT CAST(CAST(value.at AS STRING) AS DATE) AS value FROM source WHERE CAST('x' AS INT) IS NULL"
    with pytest.raises(TransformFailed, match="CAST_INVALID_INPUT"):
        run_transform(sql(query), [at(1)])
    assert run_transform(sql(query, sparkConf={"spark.sql.ansi.enabled": "false"}), [at(1)]) == [Record("2026-01-01")]
    with pytest.raises(TransformFailed, match="CAST_INVALID_INPUT"):
        run_transform(sql(query), [at(1)])


def test_a_partition_ends_at_its_predicate(run_transform: Run) -> None:
    source = {**JSON, "stopping": {"predicate": "value.id = 2"}}
    job = sql("SELECT value.id AS value FROM source", source=source)
    assert [record.text for record in run_transform(job, [at(1), at(2), at(3)])] == ["1"]
    with pytest.raises(ConfigurationError, match="needs a broker"):
        run_transform(job, checkpoints=[[at(1)], [at(2)]])


def test_no_records_are_no_output_but_the_job_is_planned(run_transform: Run) -> None:
    assert run_transform(sql("SELECT key, value.id AS value FROM source"), []) == []
    with pytest.raises(TransformError, match="does not plan"):
        run_transform(sql("SELECT nothing AS value FROM source"), [])


def test_a_spark_that_a_fixture_has_stopped_is_started_again(run_transform: Run) -> None:
    """A process has a single Spark, and tests of a user may begin and end their own."""
    job = sql("SELECT value.id AS value FROM source")
    before = run_transform(job, [at(1)])
    SparkSession.builder.getOrCreate().stop()
    assert run_transform(job, [at(1)]) == before == [Record("1")]


GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
EXPRESSIONS = """
SELECT key, struct(
    value.id * 3 % 7 AS rest, value.id / 3 AS third, CAST(value.id AS DECIMAL(10, 2)) / 7 AS seventh,
    upper(CAST(key AS STRING)) AS upper, hash(value.id, key) AS hash, date_trunc('hour', value.at) AS hour,
    CASE WHEN value.id > 2 THEN 'large' WHEN value.id IS NULL THEN 'none' END AS size,
    transform(sequence(0, coalesce(value.id, 0)), each -> each * each) AS squares,
    map_filter(map('a', value.id, 'b', 2), (name, id) -> id > 1) AS some
) AS value
FROM source WHERE value.id IS NULL OR value.id <> 4
"""


def test_interpreted_plans_have_the_results_of_generated_code(run_transform: Run) -> None:
    """Of laptops and of clusters: a cold JVM needs seconds to compile what a single test runs once."""
    records = [Record(None, "ä"), Record({"id": None}, "ß"), Record({"id": -5}, "negative")]
    records += [Record(at(number), f"key-{number}") for number in (0, 2, 3, 4, 59)]
    interpreted = run_transform(sql(EXPRESSIONS), records)
    spark = SparkSession.getActiveSession()
    assert spark is not None
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = compiled.getCount()  # what is compiled once is not compiled again
    assert run_transform(sql(EXPRESSIONS, sparkConf=GENERATED), records) == interpreted
    assert compiled.getCount() > before
    assert [record.key for record in interpreted] == [record.key for record in records if record.key != b"key-4"]
