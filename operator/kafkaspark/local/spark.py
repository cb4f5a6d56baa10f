"""The Spark of this process: started for the first job that needs it, and kept."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaspark.local.classes import make_archive, use_archive
from kafkaspark.local.code import user_code
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spark_settings import FIXED
from sparkapp.spark.launch.preload import VARIABLE as PRELOAD
from sparkapp.spark.launch.settings import session_settings, with_class_archive, with_json_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from sparkapp.model.job.spec import Job

_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_SQL = "spark.sql."
_CORES = 2
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=512m -Xms448m -Xmn256m"
"""For minutes at most. No collection is due while its first job runs. Spark refuses a heap of less than 450 MB."""
_NO_LOG = """
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
"""
"""Without an appender Spark takes its own configuration. Classes for lines of JSON are not loaded."""
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark generates no Java for a plan and interprets its expressions: the results are those of generated code.

That is Spark's own promise, for it interprets what it fails to compile. Compilers took a quarter of a first test's CPU.
"""
_QUICK_STREAM = {"spark.sql.streaming.pollingDelay": "10ms"}
"""A test waits for the stream, which looks for the next checkpoint so often."""
_WHOLE_PROGRESS = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
"""The output has the late rows of all micro-batches."""
_CASES = re.compile(r"\b(upper|ucase|lower|lcase|initcap)\s*\(", re.IGNORECASE)
_CASES_CLASS = "org.apache.spark.sql.catalyst.util.CollationAwareUTF8String"
_REPOSITORY = Path(names.__file__).parents[2]
"""The folder that has the package ``sparkapp``."""


class LocalSpark:
    """A session with local threads, for one job after the other. Used by one thread at a time.

    :ivar scratch: folder of Spark's files; in memory where the machine has a file system for that.
    """

    def __init__(self) -> None:
        memory = Path("/dev/shm")  # noqa: S108 (Linux's own)
        folder = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
        self.scratch = Path(tempfile.mkdtemp(prefix="kafkaspark-spark-", dir=folder))
        self._first: SparkSession | None = None
        self._own: frozenset[str] = frozenset()
        """Names of the variables that every worker has."""

    def session(self, job: Job, conf: Mapping[str, str], variables: Mapping[str, str]) -> SparkSession:
        """A session of the job's own: its settings, views and functions are of no other job.

        :param conf: ``spec.sparkConf``, of which the settings of a session apply.
        :param variables: of the job's Python workers. With other variables Spark starts other workers.
        :raises ConfigurationError: this machine cannot start Spark.
        """
        if self._first is None or _is_stopped(self._first):
            self._first = self._start(job)
        session = self._first.newSession()
        _make_default(session)
        if _CASES.search(job.spec.transform.sql):
            _load_cases(session)
        for name, value in {**session_settings(job), **_QUICK_STREAM, **conf, **_WHOLE_PROGRESS}.items():
            if name.startswith(_SQL) and session.conf.isModifiable(name):
                session.conf.set(name, value)
        environment = session.sparkContext.environment
        for name in [name for name in environment if name not in self._own]:
            del environment[name]
        environment.update(variables)
        return session

    def letters_of(self, session: SparkSession, key: str) -> list[Path]:
        """The finished files of dead letters of a job's tasks.

        :param key: of :func:`sparkapp.spark.frames.record_policy.attempt_key`.
        """
        scratch = Path(session.conf.get("spark.local.dir", "") or tempfile.gettempdir())
        return sorted(scratch.glob(f"blockmgr-*/dead-letters-{key}/*.arrow"))

    def rests(self) -> Path | None:
        """Spark has nothing to do for now. If the class archive is missing, it is made; its folder then."""
        return None if self._first is None else make_archive()

    def close(self) -> None:
        """Stops the JVM's session; called at the end of the process or of a session of tests."""
        if self._first is not None:
            self._first.stop()
            self._first = None
            make_archive()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _start(self, job: Job) -> SparkSession:
        check_java()
        use_archive()
        from sparkapp.spark.launch.jvm import Jvm

        log = self.scratch / "log4j2.properties"
        log.write_text(_NO_LOG)
        settings = session_settings(job)
        settings |= {
            "spark.master": f"local[{_CORES}]",
            "spark.app.name": "kafkaspark",
            "spark.local.dir": str(self.scratch),
            "spark.sql.warehouse.dir": str(self.scratch / "warehouse"),
            # Each task imports the user's modules as they are now.
            "spark.python.worker.reuse": "false",
            f"spark.executorEnv.{PRELOAD}": "pandas",
            # A failed task is a message of ours.
            "spark.task.maxFailures": "1",
            **_INTERPRETED,
            _JAVA_OPTIONS: f"{settings[_JAVA_OPTIONS]} {_QUICK_JVM} -Dlog4j2.configurationFile={log.as_uri()}",
        }
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # The JVM comes up while Python imports PySpark. Signals can be set by the main thread alone.
        jvm = None if _has_jvm() or threading.current_thread() is not threading.main_thread() else Jvm(settings, {})
        from sparkapp.spark.launch.session import create_session

        session = create_session(settings, jvm)
        session.sparkContext.setLogLevel("OFF")
        session.sparkContext.environment.update(
            {
                "PYTHONDONTWRITEBYTECODE": "1",
                # Else workers import from the folder in which Spark was started, before that of the job.
                "PYTHONSAFEPATH": "1",
                "PYTHONPATH": os.pathsep.join([str(user_code().folder), str(_REPOSITORY)]),
            }
        )
        self._own = frozenset(session.sparkContext.environment)
        return session


def _load_cases(session: SparkSession) -> None:
    """Has the JVM load its table of upper and lower case, in a thread, while the query is planned.

    Spark asks its library for the case of each character of Unicode, which takes a cold JVM two seconds.
    """

    def load() -> None:
        with suppress(Exception):  # the query will load it, and will say what is wrong
            jvm: Any = session._jvm
            jvm.java.lang.Class.forName(_CASES_CLASS)

    threading.Thread(target=load, name="load-cases", daemon=True).start()


def _make_default(session: SparkSession) -> None:
    """A transform that asks for the session gets this, as it gets the only session in a pod."""
    kind: Any = type(session)
    kind._instantiatedSession = kind._activeSession = session
    of_jvm = kind._get_j_spark_session_class(session._jvm)
    of_jvm.setDefaultSession(session._jsparkSession)
    of_jvm.setActiveSession(session._jsparkSession)


def _is_stopped(session: SparkSession) -> bool:
    """Whether somebody stopped it: a process has a single Spark, and a fixture of the user's tests may stop its own."""
    context: Any = session.sparkContext
    return context._jsc is None or bool(context._jsc.sc().isStopped())


def _has_jvm() -> bool:
    """Whether a test has started a Spark of its own. It is used, with the settings of its JVM."""
    pyspark: Any = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def check_java() -> None:
    """
    :raises ConfigurationError: this machine has no Java.
    """
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and (Path(home) / "bin" / "java").exists()):
        return
    msg = "this job needs Spark, and Spark needs Java: there is no java on PATH, and JAVA_HOME names none"
    raise ConfigurationError(msg, remedy="install a Java 17 or 21 runtime, for instance openjdk-17-jre-headless")


def small_session(folder: Path) -> SparkSession:
    """A session of this process for a command that reads files; runs no code of users.

    :param folder: for Spark's own files. :raises ConfigurationError: this machine has no Java.
    """
    check_java()
    from sparkapp.spark.launch.session import create_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        **FIXED,
        "spark.app.name": "kafkaspark",
        "spark.master": f"local[{_CORES}]",
        "spark.default.parallelism": str(_CORES),
        "spark.sql.shuffle.partitions": str(_CORES),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        _JAVA_OPTIONS: f"-Dkafkaspark.log.level=off -Djava.io.tmpdir={folder} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = create_session(with_class_archive(with_json_log(settings)))
    session.sparkContext.setLogLevel("OFF")
    return session


def open_spark() -> LocalSpark:
    """A Spark that knows the folder of the user's modules; nothing is started yet."""
    user_code()
    return LocalSpark()
