"""The Spark session: in a pod in client mode with executor pods, elsewhere with local threads."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sparkapp.spark.launch.jvm import Jvm, forget_gateway

LOG = logging.getLogger(__name__)

_LIMIT = "spark.executor.maxNumFailures"
_NO_LIMIT = "2147483647"


class CoreSession:
    """The part of a ``SparkSession`` that the continuous engine uses: the context without a planner.

    The planner takes a cold JVM two seconds of CPU, just when the executors start.

    :ivar sparkContext: named as in PySpark.
    """

    def __init__(self, context: SparkContext) -> None:
        self.sparkContext = context

    def stop(self) -> None:
        """As ``SparkSession.stop``."""
        self.sparkContext.stop()


Spark: TypeAlias = SparkSession | CoreSession
"""What an engine runs on."""


def create_session(settings: Mapping[str, str], jvm: Jvm | None = None) -> SparkSession:
    """Connects to the JVM, or starts one; executors and their Python come up in the background.

    Called in a thread of the driver, while recovery runs.

    :param settings: of :func:`sparkapp.spark.launch.settings.session_settings`.
    :param jvm: launched with the same settings; None to let PySpark start one.
    """
    _start_context(settings, jvm)
    session = SparkSession.builder.getOrCreate()
    _write_no_checksums(session.sparkContext)
    _announce(session, settings)
    return session


def _write_no_checksums(context: SparkContext) -> None:
    """For the files of this JVM: the query log, which is rebuilt from the document at each start.

    Each would take another file. Executors write them for query state.
    """
    files: Any = context._jvm
    files.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def create_core_session(settings: Mapping[str, str], jvm: Jvm | None = None) -> CoreSession:
    """:func:`create_session` for the continuous engine."""
    session = CoreSession(_start_context(settings, jvm))
    _announce(session, settings)
    return session


def _start_context(settings: Mapping[str, str], jvm: Jvm | None) -> SparkContext:
    # Spark's planner processes take their Python from the environment alone.
    os.environ.setdefault("PYSPARK_PYTHON", jvm.python if jvm is not None else sys.executable)
    if jvm is not None:
        jvm.await_gateway()
    limit = settings.get(_LIMIT) if settings["spark.master"].startswith("k8s://") else None
    unlimited = {_LIMIT: _NO_LIMIT} if limit is not None else {}
    context = SparkContext.getOrCreate(SparkConf().setAll(list({**settings, **unlimited}.items())))
    forget_gateway()
    context.setLogLevel("WARN")
    _silence_errors_of_queries()
    if limit is not None:
        _limit_failed_executors(context, int(limit))
    return context


def _silence_errors_of_queries() -> None:
    """PySpark logs an error of a query with the JVM's stack, 10 KB in a line, and raises it. Callers report it."""
    for kind in ("SQL", "DataFrame"):
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").disabled = True


def _limit_failed_executors(context: SparkContext, limit: int) -> None:
    """Has Spark count executors that failed, and no pods that Kubernetes refused: Spark asks for them each second.

    Spark ends the application after some failures, however well the other executors work (SPARK-55075). Its allocator
    reports a refusal to the manager that counts, and no setting separates the two. Refusals before this call
    do not count, and there was no limit yet (ADR 65).
    """
    try:
        backend = context._jsc.sc().schedulerBackend()
        allocator, manager = (_private(backend, name).get(backend) for name in ("podAllocator", "lifecycleManager"))
        getattr(allocator, "executorPodsLifecycleManager_$eq")(context._jvm.scala.Option.empty())
        counted = manager.failureTracker()
        _private(counted, "failedExecutorsTimeStamps").get(counted).clear()
        _private(manager, "maxNumExecutorFailures").setInt(manager, limit)
    except Py4JJavaError as error:
        LOG.warning("no number of failed executors ends the attempt: %s", error.java_exception)


def _private(instance: Any, name: str) -> Any:
    field = instance.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def _announce(session: Spark, settings: Mapping[str, str]) -> None:
    tasks = int(settings["spark.default.parallelism"])
    if not _is_local(session):
        threading.Thread(target=load_workers, args=(session, tasks), name="load-workers", daemon=True).start()
    LOG.info("Spark %s is up", session.sparkContext.version)


def load_workers(session: Spark, tasks: int) -> None:
    """Makes each executor's Python daemon import what tasks need, seconds of CPU, while the driver starts the engine.

    :param tasks: that run at a time.
    """
    # An error here is left to the engine's first tasks, which import the same and raise it.
    with suppress(Exception):
        session.sparkContext.parallelize(range(tasks), tasks).foreachPartition(_do_nothing)


def _do_nothing(_: Iterator[int]) -> None:
    pass


def has_executors(session: Spark) -> bool:
    """Whether an executor is registered; always True for a local session."""
    return count_executors(session) > 0


def count_executors(session: Spark) -> int:
    """Number of registered executors; 1 for a local session."""
    if _is_local(session):
        return 1
    # Spark counts the driver, too.
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def had_executors(session: Spark) -> bool:
    """Whether an executor has ever been registered, even if it is gone. Always True for a local session."""
    if _is_local(session):
        return True
    # The driver is in both lists. Spark notes a registration there some milliseconds late.
    known = session.sparkContext._jsc.sc().statusStore().executorList(False)
    return int(known.size()) > 1 or count_executors(session) > 0


def has_places(session: Spark, tasks: int) -> bool:
    """Whether the registered executors can run this many tasks at the same time; always True for a local session."""
    if _is_local(session):
        return True
    conf = session.sparkContext.getConf()
    an_executor = int(conf.get("spark.executor.cores", "1") or 1) // int(conf.get("spark.task.cpus", "1") or 1)
    return count_executors(session) * max(1, an_executor) >= tasks


def request_executors(session: Spark, count: int) -> None:
    """Sets the number of executors that Spark keeps; returns at once. A local session has none.

    Spark starts further executors as its first executors, and replaces lost executors up to the number.
    """
    if not _is_local(session):
        context = session.sparkContext
        nowhere = context._jvm.PythonUtils.toScalaMap(context._jvm.java.util.HashMap())
        context._jsc.sc().requestTotalExecutors(count, 0, nowhere)


def release_executors(session: Spark, *, used: Collection[str], keep: int) -> None:
    """Ends executors without a subtask, and sets the number that Spark keeps; returns at once.

    :param used: Spark's ids of the executors with a subtask.
    :param keep: number of executors that may stay.
    """
    if _is_local(session):
        return
    context = session.sparkContext
    found = context._jsc.sc().getExecutorIds()
    known = [str(found.apply(index)) for index in range(found.size())]
    idle = [executor for executor in known if executor not in used][: max(0, len(known) - keep)]
    if idle and used:
        LOG.info("executors %s are released", ", ".join(idle))
        ids = context._jvm.PythonUtils.toSeq(idle)
        context._jsc.sc().killExecutors(ids)
    # Spark counts down what it has been asked for, and was not asked for its first executors.
    request_executors(session, keep)


def control_host(session: Spark) -> str:
    """The address at which the driver listens for its subtasks: in a pod the pod's, which executors reach.

    The settings are the context's: to ask the session would make the JVM load its SQL classes.
    """
    return (
        "127.0.0.1" if _is_local(session) else str(session.sparkContext.getConf().get("spark.driver.host")).strip("[]")
    )


def _is_local(session: Spark) -> bool:
    return bool(session.sparkContext.master.startswith("local["))


def close_session(session: Spark) -> None:
    """Stops the session; in a cluster its executors go with it."""
    try:
        session.stop()
    except (Py4JError, OSError) as error:
        # A JVM that has ended has nothing to stop, and the error that ended it is reported.
        LOG.warning("Spark could not be stopped: %s", error)
