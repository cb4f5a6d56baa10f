"""What Spark does not run on a stream: refused at the start, before a record is read, with Spark's reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import OutputMode, Transform
from tests.integration.engine.conftest import LocalJobs

pytestmark = pytest.mark.spark

_MODULE = """
from pyspark.sql import functions as f

WITHIN = "id = order_id AND paid_at BETWEEN at AND at + INTERVAL 20 SECONDS"


def halves(source):
    events = source.select("topic", "value.*").withColumn("at", f.timestamp_millis("ms"))
    events = events.withWatermark("at", "10 seconds")
    payments = events.select(f.col("id").alias("order_id"), f.col("at").alias("paid_at"))
    return events.select("id", "at"), payments


def as_value(rows):
    return rows.select(f.to_json(f.struct("*")).alias("value"))


def anti_join(source):
    orders, payments = halves(source)
    return as_value(orders.join(payments, f.expr(WITHIN), "left_anti"))


def outer_join_without_time(source):
    orders, payments = halves(source)
    return as_value(orders.join(payments, f.expr("id = order_id"), "full_outer"))


def outer_join(source):
    orders, payments = halves(source)
    return as_value(orders.join(payments, f.expr(WITHIN), "left_outer"))


def sum_without_watermark(source):
    return as_value(source.select("value.*").groupBy("id").count())


def sum_of_sums(source):
    sums = source.select("value.*").groupBy("id").agg(f.sum("ms").alias("s"))
    return as_value(sums.groupBy("s").count())


def sorted_rows(source):
    return as_value(source.select("value.*").orderBy("id"))


def count_of_distinct(source):
    return as_value(source.select("value.*").groupBy("id").agg(f.countDistinct("ms").alias("n")))
"""
REFUSED = (
    ("anti_join", OutputMode.APPEND, "LeftAnti"),
    ("outer_join_without_time", OutputMode.APPEND, "without a watermark"),
    ("outer_join", OutputMode.UPDATE, "output mode"),
    ("sum_without_watermark", OutputMode.APPEND, "output mode"),
    ("sum_of_sums", OutputMode.UPDATE, "correctness"),
    ("sorted_rows", OutputMode.UPDATE, "orting"),
    ("count_of_distinct", OutputMode.UPDATE, "istinct"),
)


def test_what_spark_does_not_run_on_a_stream_is_refused_at_the_start(local_job: LocalJobs, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "refused.py").write_text(_MODULE)
    job = local_job(
        partitions=1, code=tmp_path / "code", stateful=True, value_format=Format.JSON,
        value_schema="id BIGINT, ms BIGINT",
    )  # fmt: skip
    said = {}
    for function, mode, _ in REFUSED:
        job.spec = replace(job.spec, transform=Transform(function=f"refused:{function}", output_mode=mode))
        job.start()
        assert job.await_end(240) == 1, function
        termination = job.termination()
        assert termination is not None
        said[function] = (termination.reason, termination.fatal, termination.message)
        assert termination.remedy
    assert {reason for reason, _, _ in said.values()} == {"InvalidTransform"}, said
    assert all(fatal for _, fatal, _ in said.values())
    assert [name for name, _, words in REFUSED if words not in said[name][2]] == [], said
    document = job.document()
    assert document is not None
    assert document.checkpoint_id == 0
