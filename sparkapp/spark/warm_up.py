"""What the first micro-batch would wait for, done while the query is still being planned.

Where a start's seconds go is measured by ``bench/recovery.py``; nothing here changes what a job does.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    import pyarrow as pa

LOG = logging.getLogger(__name__)

_LATE_IMPORTS = ("pandas", "pyspark.sql.pandas.functions")
"""What PySpark imports in the driver when it first plans a stage in Python; pandas takes a second alone."""
_STATIC_SOURCES = "pyspark_"
"""Packages of others that bring data sources begin with it."""


def import_late_ones() -> None:
    """For the driver, while the JVM comes up."""
    for name in _LATE_IMPORTS:
        importlib.import_module(name)


def start_workers(spark: SparkSession, tasks: int) -> None:
    """Runs an empty stage in Python, in a thread: executors start their daemon (``worker_daemon``), which imports for
    seconds, while the driver plans the query.

    :param tasks: as many as the first micro-batch will have.
    """

    def run() -> None:
        # Nothing depends on it, and an attempt may end before it is done.
        with suppress(Exception):
            spark.range(0, tasks, 1, tasks).mapInArrow(_unchanged, "id BIGINT").collect()

    threading.Thread(target=run, name="warm-up", daemon=True).start()


def skip_search_for_sources(spark: SparkSession) -> None:
    """Spares the driver a process in which Spark looks for Python data sources that are installed; where there are any,
    Spark finds them as ever.

    Spark asks for them once a JVM, before the first Python data source is registered, and keeps the answer in the
    variable that is set here. Where that fails for any reason it looks: slower, never wrong.
    """
    if any(module.name.startswith(_STATIC_SOURCES) for module in pkgutil.iter_modules()):
        return
    try:
        jvm = spark._jvm
        manager = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
        known = getattr(manager, "MODULE$")
        if known.dataSourceBuilders().isEmpty():
            getattr(known, "dataSourceBuilders_$eq")(jvm.scala.Some(jvm.PythonUtils.toScalaMap({})))
    except Exception as error:  # Py4J raises many kinds, and all mean "another Spark"
        LOG.info("Spark looks for installed data sources: %s", error)


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
