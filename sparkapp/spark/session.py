"""The Spark session: in a pod a client-mode driver that starts its own executors, elsewhere local threads."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparkapp.spark.jvm import Jvm, forget_gateway

LOG = logging.getLogger(__name__)


def create_session(settings: Mapping[str, str], jvm: Jvm | None = None) -> SparkSession:
    """Connects to the JVM, or starts one; executors and their Python come up in the background.

    :param jvm: one that was launched with the same settings.
    """
    # Spark's planner processes look only at the environment; without it they would run some other Python.
    os.environ.setdefault("PYSPARK_PYTHON", jvm.python if jvm is not None else sys.executable)
    if jvm is not None:
        jvm.await_gateway()
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    forget_gateway()
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
    return count_executors(session) > 0


def count_executors(session: SparkSession) -> int:
    """How many there are to run tasks; the driver is one where the session is local."""
    if _is_local(session):
        return 1
    # The driver is counted, too.
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _is_local(session: SparkSession) -> bool:
    return bool(session.sparkContext.master.startswith("local["))


def close_session(session: SparkSession) -> None:
    """Stops the session; in a cluster its executors go with it."""
    try:
        session.stop()
    except (Py4JError, OSError) as error:
        # A JVM that is gone has nothing to stop, and what ended it is the error to report.
        LOG.warning("Spark could not be stopped: %s", error)
