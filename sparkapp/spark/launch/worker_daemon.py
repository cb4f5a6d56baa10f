"""Spark's Python daemon with the heavy modules imported, so that each worker is a fork that starts at once.

Without it a worker spends 2 s of CPU on pyarrow, PySpark and the Kafka clients, and 2 s more on pandas. A job of
parallelism P has 2 P workers (a reader and a writer for each task). On few cores that was most of a restart. Spark runs
this module by ``spark.python.daemon.module``.
"""

from __future__ import annotations

from pyspark.daemon import manager

from sparkapp.model.encoding.error_object import add_objects_to_tracebacks
from sparkapp.model.encoding.json_log import log_as_json
from sparkapp.spark.launch.preload import preload_workers
from sparkapp.spark.launch.user_modules import allow_decorators, find_user_modules

if __name__ == "__main__":
    log_as_json("WARNING")
    add_objects_to_tracebacks()
    preload_workers()
    find_user_modules()
    allow_decorators()
    manager()
