"""What Spark's Python processes import: once, in the process that they are forks of.

Importing starts no thread of Python and opens no connection, so forking afterwards is safe.

**Pandas** takes 1.5 s of CPU, as much as all the rest of PySpark and pyarrow, and a job without a Python function uses
nothing of it. But pyarrow looks for it with the first list or number that it makes a value of, to see whether that is
one of pandas' own. So where it is not wanted it is not found.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder

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
    "pyarrow",
    "encodings.idna",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker_message",
    "sparkapp.spark.data_source",
    "unicodedata",
)
"""What Spark's planner processes import, and most of it the driver as well."""
VARIABLE = "KAFKASPARK_PRELOAD"
"""Names what the workers of one job need beyond theirs; the settings of a session set it."""
_PANDAS = "pandas"
_PARSERS = {Format.AVRO: "sparkapp.source.avro", Format.PROTOBUF: "sparkapp.source.protobuf"}


def wanted_by(spec: JobSpec) -> str:
    """What :data:`VARIABLE` is for a job; empty where its workers need nothing special."""
    source = spec.source
    wanted = {_PARSERS[one] for one in (source.key_format, source.value_format) if one in _PARSERS}
    if spec.transform.function:
        wanted.add(_PANDAS)
    return " ".join(sorted(wanted))


def preload_workers() -> None:
    """Imports what every worker of the job needs, to be followed by forks."""
    wanted = os.environ.get(VARIABLE, "").split()
    if _PANDAS not in wanted:
        sys.meta_path.insert(0, _NoPandas())
    _preload((*WORKERS, *wanted))
    importlib.import_module("pyarrow").scalar(0)  # looks for pandas, once and for all forks
    _settle()


def preload_planners() -> None:
    """Imports what the planner processes need, to be followed by forks."""
    _preload(PLANNERS)
    _settle()


def _preload(modules: Iterable[str]) -> None:
    for name in modules:
        importlib.import_module(name)


def _settle() -> None:
    """The collector must not touch, and so copy, in each fork what all of them share."""
    gc.collect()
    gc.freeze()


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if fullname == _PANDAS:
            msg = "workers of a job without a Python function do without pandas"
            raise ModuleNotFoundError(msg, name=fullname)
