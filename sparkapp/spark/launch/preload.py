"""Imports the modules of Spark's Python processes once, in the process that they are forked from.

The imports start no Python thread and open no connection, so a fork afterwards is safe.

**Pandas** takes 1.5 s of CPU, as much as the rest of PySpark and pyarrow. A job without a Python function does not use
it. But pyarrow imports it for the first value that it makes of a list or a number, to recognise pandas' types. So in
workers of such a job the import of pandas fails.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder

from sparkapp.model.job.spec import JobSpec

WORKERS = (
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "confluent_kafka",
    "sparkapp.spark.tasks.data_source",
    "sparkapp.spark.tasks.worker_clients",
    "sparkapp.spark.frames.record_policy",
    "sparkapp.spark.frames.registry_format",
    "sparkapp.spark.tasks.write_task",
)
PLANNERS = (
    "pyarrow",
    "encodings.idna",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker_message",
    "sparkapp.spark.tasks.data_source",
    "unicodedata",
)
"""Modules of Spark's planner processes; the driver imports most of them, too."""
VARIABLE = "KAFKASPARK_PRELOAD"
"""Names the modules that only this job's workers need; the settings of a session set it."""
_PANDAS = "pandas"
_PARSERS = "sparkapp.source.formats"
"""The package with the parsers of registered formats; each module has its format's name."""


def wanted_by(spec: JobSpec) -> str:
    """The value of :data:`VARIABLE` for a job; empty if its workers need no more than others."""
    source = spec.source
    chosen = (source.key_format, source.value_format)
    wanted = {f"{_PARSERS}.{kind}" for kind in chosen if kind.traits.registered}
    if spec.transform.function:
        wanted.add(_PANDAS)
    return " ".join(sorted(wanted))


def preload_workers() -> None:
    """Imports the modules of the job's workers; called by the worker daemon before it forks."""
    wanted = os.environ.get(VARIABLE, "").split()
    if _PANDAS not in wanted:
        sys.meta_path.insert(0, _NoPandas())
    _preload((*WORKERS, *wanted))
    importlib.import_module("pyarrow").scalar(0)  # imports pandas or fails to, once for all forks
    _settle()


def preload_planners() -> None:
    """Imports the modules of the planner processes; called by the fork server before it forks."""
    _preload(PLANNERS)
    _settle()


def _preload(modules: Iterable[str]) -> None:
    for name in modules:
        importlib.import_module(name)


def _settle() -> None:
    """Keeps the garbage collector from touching, and so copying, the memory that all forks share."""
    gc.collect()
    gc.freeze()


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if fullname == _PANDAS:
            msg = "pandas is not imported in workers of a job without a Python function"
            raise ModuleNotFoundError(msg, name=fullname)
