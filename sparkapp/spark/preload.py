"""What Spark's Python processes import: once, in the process that they are forks of.

Importing starts no thread of Python and opens no connection, so forking afterwards is safe. Pandas is everybody's,
whatever the job is: pyarrow imports it with the first list or number that it makes a value of, to see whether that is
one of pandas' own.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterable

from sparkapp.model.job import Format, JobSpec

WORKERS = (
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "confluent_kafka",
    "sparkapp.spark.data_source",
    "sparkapp.spark.worker_clients",
    "sparkapp.spark.record_policy",
    "sparkapp.spark.registry_format",
    "sparkapp.spark.write_task",
)
PLANNERS = (
    "pandas",
    "pyarrow",
    "pyspark.sql.pandas.functions",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "sparkapp.spark.data_source",
)
"""What PySpark imports where it plans: in the driver, with the first stage in Python, and in Spark's own processes."""
VARIABLE = "KAFKASPARK_PRELOAD"
"""Names what the workers of one job need beyond theirs; the settings of a session set it."""
_PARSERS = {Format.AVRO: "sparkapp.source.avro", Format.PROTOBUF: "sparkapp.source.protobuf"}


def wanted_by(spec: JobSpec) -> str:
    """What :data:`VARIABLE` is for a job; empty where its workers need nothing special."""
    source = spec.source
    return " ".join(sorted({_PARSERS[one] for one in (source.key_format, source.value_format) if one in _PARSERS}))


def preload_workers() -> None:
    """Imports what every worker needs, to be followed by forks."""
    _preload((*WORKERS, *os.environ.get(VARIABLE, "").split()))


def preload_planners() -> None:
    """Imports what the driver and its planner processes need, to be followed by forks."""
    _preload(PLANNERS)


def _preload(modules: Iterable[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    importlib.import_module("pyarrow").scalar(0)  # looks for pandas, once and for all forks
    # The collector must not touch, and so copy, in each fork what all of them share.
    gc.collect()
    gc.freeze()
