"""The Spark session: in a pod a client-mode driver that starts its own executors, elsewhere local threads."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sparkapp.model import names
from sparkapp.model.job import Job
from sparkapp.spark.class_archive import with_class_archive
from sparkapp.spark.transform import code_directory
from sparkapp.spark.worker_daemon import VARIABLE, wanted_by

LOG = logging.getLogger(__name__)

_DEFAULTS = {
    # Larger batches, fewer crossings between the JVM and Python; lower it where records are far beyond 10 KB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # With a limit in bytes Spark measures the whole batch after every row, and for a list column of nothing but nulls
    # (headers, mostly) one measurement costs as much as there are rows: batches of 65,536 rows took minutes.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}

_ALWAYS = {
    # A second copy of a task would fence the first: both write under the same transactional id.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "sparkapp.spark.worker_daemon",
    "spark.sql.streaming.pollingDelay": "50ms",
    # The query log is rebuilt from the document at each start: neither checksums nor renames have to protect it.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # The other format puts names of state files into Spark's commit log, and our document has no place for them.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Not supported in streaming; left on, Spark warns at each start.
    "spark.sql.adaptive.enabled": "false",
}


def session_settings(job: Job, *, directory: Path = Path(names.JOB_DIRECTORY)) -> dict[str, str]:
    """Every Spark setting of the attempt: the protocol's own last, so that nothing overrides them.

    :param directory: where the operator's ``spark-conf.json`` is mounted; without one the session is local.
    """
    settings: dict[str, str] = {
        **_DEFAULTS,
        "spark.app.name": f"{job.namespace}.{job.name}",
        # A shuffle ends in as many writers as there are subtasks with transactional ids.
        "spark.sql.shuffle.partitions": str(job.spec.parallelism),
        "spark.default.parallelism": str(job.spec.parallelism),
    }
    file = directory / names.SPARK_CONF_KEY
    if file.exists():
        address = os.environ["KAFKASPARK_POD_IP"]
        settings |= {
            "spark.master": f"k8s://https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}",
            # Both: with 0.0.0.0 executors are told to connect to 0.0.0.0.
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            # By default a context waits for four fifths of its executors, up to 30 s. Planning the query needs none of
            # them, and the first tasks wait for the first executor by themselves.
            "spark.scheduler.minRegisteredResourcesRatio": "0",
        }
        settings |= json.loads(file.read_text(encoding="utf-8"))
    else:
        settings |= {
            "spark.master": f"local[{job.spec.parallelism}]",
            "spark.ui.enabled": "false",
        }
    code = code_directory()
    if Path(code).is_dir():
        settings["spark.executorEnv.PYTHONPATH"] = code
    wanted = wanted_by(job.spec)
    if wanted:
        settings[f"spark.executorEnv.{VARIABLE}"] = wanted
    return with_class_archive(settings) | _ALWAYS


def start_jvm(settings: Mapping[str, str]) -> None:
    """Begins to start the JVM, in a thread; :func:`create_session` with the same settings goes on with it.

    Called by an attempt's program before it imports anything heavy, which takes Python as long as the JVM takes to come
    up. There is no Spark context yet: that one asks for executors, and brokers and code are checked before it does.
    """
    _name_python()
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)

    def launch() -> None:
        # Whatever goes wrong: the session starts a JVM where there is none, and tells what prevents it.
        with suppress(Exception):
            SparkContext._ensure_initialized(conf=conf)

    threading.Thread(target=launch, name="jvm-start", daemon=True).start()


def create_session(settings: Mapping[str, str]) -> SparkSession:
    """Starts the JVM where none is up, and connects; executors and their Python come up in the background."""
    _name_python()
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    tasks = int(settings["spark.default.parallelism"])
    if not _is_local(session):
        threading.Thread(target=load_workers, args=(session, tasks), name="load-workers", daemon=True).start()
    LOG.info("Spark %s is up", session.version)
    return session


def load_workers(session: SparkSession, tasks: int) -> None:
    """Has each executor's Python daemon load what tasks need, seconds of CPU, while the driver plans the query."""
    nothing = session.range(0, tasks, 1, tasks).mapInArrow(_pass_on, "id BIGINT")
    # The first micro-batch would do it otherwise, and says what is wrong where it cannot be done.
    with suppress(Exception):
        nothing.write.format("noop").mode("overwrite").save()


def _pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def has_executors(session: SparkSession) -> bool:
    """Whether there is somebody to run tasks; the driver itself where the session is local."""
    return _is_local(session) or bool(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > 1)


def _is_local(session: SparkSession) -> bool:
    return bool(session.sparkContext.master.startswith("local["))


def close_session(session: SparkSession) -> None:
    """Stops the session; in a cluster its executors go with it."""
    session.stop()


def _name_python() -> None:
    # Spark's planner processes look only at the environment; without it they would run some other Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
