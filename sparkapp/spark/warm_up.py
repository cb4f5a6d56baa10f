"""What a start would wait for, done while it waits for something else, or left out.

Where a start's seconds go is measured by ``bench/recovery.py``; nothing here changes what a job does.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil

from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)

_LATE_IMPORTS = ("pandas", "pyspark.sql.pandas.functions")
"""What PySpark imports in the driver when it first plans a stage in Python; pandas takes a second alone."""
_STATIC_SOURCES = "pyspark_"
"""Packages of others that bring data sources begin with it."""


def import_late_ones() -> None:
    """For the driver, while the JVM comes up."""
    for name in _LATE_IMPORTS:
        importlib.import_module(name)


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
