"""Spark's Python daemon with the heavy modules already imported: each worker is a fork that starts at once.

A worker of its own would spend 2 s of CPU on pyarrow, PySpark and the Kafka clients, and 2 s more on pandas, and a job
of parallelism P has 2 P of them (a reader and a writer for each task): on few cores that was most of a restart. Spark
runs this by ``spark.python.daemon.module``.
"""

from __future__ import annotations

from pyspark.daemon import manager

from sparkapp.spark.preload import preload_workers

if __name__ == "__main__":
    preload_workers()
    manager()
