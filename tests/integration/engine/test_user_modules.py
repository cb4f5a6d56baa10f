"""A user's modules with names of others: the job names them before Spark starts, in both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

_MODULE = """
from {helper} import same

def enrich(source):
    return same(source)
"""
_HELPER = "def same(source):\n    return source\n"
ENGINES = [Engine.MICRO_BATCH, Engine.CONTINUOUS]


def transform(engine: Engine, module: str) -> Transform:
    name = f"{module}:enrich"
    return Transform(function=name) if engine is Engine.MICRO_BATCH else Transform(arrow=ArrowTransform(function=name))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "modules", [("kafka", "own_helper", "kafka"), ("orders", "logging", "logging")], ids=["main module", "helper"]
)
def test_a_module_with_the_name_of_another_is_named(
    local_job: LocalJobs, broker: str, tmp_path: Path, engine: Engine, modules: tuple[str, str, str]
) -> None:
    module, helper, clash = modules
    (tmp_path / f"{module}.py").write_text(_MODULE.format(helper=helper))
    (tmp_path / f"{helper}.py").write_text(_HELPER)
    job = local_job(transform=transform(engine, module), engine=engine, code=tmp_path)
    produce(broker, job.spec.source.topics[0], 0, 10)
    job.start(alone=True)
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("InvalidTransform", True)
    assert f"{clash}.py" in termination.message
    assert f"rename {clash}.py" in termination.remedy
    assert visibility.records(broker, job.spec.sink.topic) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_workers_find_the_users_modules(local_job: LocalJobs, broker: str, tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "orders.py").write_text(_MODULE.format(helper="own_helper") + _IN_WORKERS)
    (tmp_path / "own_helper.py").write_text(_HELPER)
    (tmp_path / "own_later.py").write_text(_HELPER)
    named = "orders:in_workers" if engine is Engine.MICRO_BATCH else "orders:late"
    chosen = (
        Transform(function=named) if engine is Engine.MICRO_BATCH else Transform(arrow=ArrowTransform(function=named))
    )
    job = local_job(transform=chosen, engine=engine, code=tmp_path)
    produce(broker, job.spec.source.topics[0], 0, 100)
    job.start(alone=True)
    job.await_records_in(100)
    assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(100))


_IN_WORKERS = """

def late(batch):
    from own_later import same
    return same(batch)

def each(batches):
    for batch in batches:
        yield late(batch).select(["key", "value"])

def in_workers(source):
    return source.select("key", "value").mapInArrow(each, "key BINARY, value BINARY")
"""


_DECORATED = """
import pandas as pd
from pyspark.sql.functions import pandas_udf, udf


def same(text):  # a worker imports this module for it
    return text


@udf("string")
def first(text):
    return same(text)


@pandas_udf("string")
def second(texts: pd.Series) -> pd.Series:
    return texts.map(same)


def enrich(source):
    return source.select("key", second(first(source.value.cast("string"))).alias("value"))
"""
_DECORATED_ARROW = """
from pyspark.sql.functions import udf


@udf("string")
def unused(text):
    return text


def enrich(batch):
    return batch
"""
_WITH_SESSION = """
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

spark = SparkSession.builder.getOrCreate()
TEXT = f.col("value").cast("string")


def enrich(source):
    assert spark.conf.get("spark.app.name").startswith("test.")
    return source.select("key", TEXT.alias("value"))
"""


@pytest.mark.parametrize(
    ("engine", "module"),
    [
        (Engine.MICRO_BATCH, _DECORATED),
        (Engine.CONTINUOUS, _DECORATED_ARROW),
        (Engine.MICRO_BATCH, _WITH_SESSION),
    ],
    ids=["decorators", "decorators of the continuous engine", "session"],
)
def test_a_module_may_use_spark_at_module_level(
    local_job: LocalJobs, broker: str, tmp_path: Path, engine: Engine, module: str
) -> None:
    (tmp_path / "uses_spark.py").write_text(module)
    job = local_job(transform=transform(engine, "uses_spark"), engine=engine, code=tmp_path)
    produce(broker, job.spec.source.topics[0], 0, 100)
    job.start(alone=True)
    job.await_records_in(100)
    assert job.drain() == 0, job.log()
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(100))
