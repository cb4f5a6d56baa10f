"""Spark's Python daemon with the heavy modules already imported: each worker is a fork that starts at once.

A worker of its own would spend 2 s of CPU on pyarrow, PySpark and the Kafka clients, and 2 s more on pandas, and a job
of parallelism P has 2 P of them (a reader and a writer for each task): on few cores that was most of a restart. Pandas
is every worker's, whatever the job is: pyarrow imports it with the first list or number that it makes a value of, to
see whether that is one of pandas' own. Importing starts no thread and opens no connection, so forking afterwards is
safe. Spark runs this by ``spark.python.daemon.module``.
"""

from __future__ import annotations

import gc
import importlib
import os

from pyspark.daemon import manager

from sparkapp.model.job import Format, JobSpec

PRELOADED = (
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
VARIABLE = "KAFKASPARK_PRELOAD"
"""Names what the workers of one job need beyond that; the session sets it."""
_PARSERS = {Format.AVRO: "sparkapp.source.avro", Format.PROTOBUF: "sparkapp.source.protobuf"}


def wanted_by(spec: JobSpec) -> str:
    """What :data:`VARIABLE` is for a job; empty where its workers need nothing special."""
    source = spec.source
    return " ".join(sorted({_PARSERS[one] for one in (source.key_format, source.value_format) if one in _PARSERS}))


def preload() -> None:
    """Imports what every worker needs, and keeps the collector from touching (and so copying) it in the forks."""
    for name in (*PRELOADED, *os.environ.get(VARIABLE, "").split()):
        importlib.import_module(name)
    importlib.import_module("pyarrow").scalar(0)  # looks for pandas, once and for all forks
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    manager()
