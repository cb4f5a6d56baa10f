"""Every Spark setting of an attempt, computed before the heavy imports: the JVM starts with them at once.

The image has an archive of loaded classes (``sparkapp/spark/launch/archive``), because most of a JVM's start is the
loading of classes. With it driver and executors start with half the CPU. It is valid for a class path that begins with
the archive's own. A JVM with any other class path ignores it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spark_settings import (
    AUTHENTICATED,
    ENCRYPTED,
    FIXED,
    FORCED,
    FORCED_CONTINUOUS,
    FORCED_EXACTLY_ONCE,
    SHUFFLE_PARTITIONS,
    STATE,
    refusal_of,
    store_settings,
)
from sparkapp.model.job.spec import Engine, Job
from sparkapp.spark.launch.preload import variables_of
from sparkapp.spark.launch.user_modules import VARIABLE as CODE_VARIABLE
from sparkapp.spark.launch.user_modules import code_directory

CLASSES_VARIABLE = "KAFKASPARK_CLASSES"
"""Names the folder of the class archive; the image sets it."""

_DRIVER_OPTIONS = "spark.driver.defaultJavaOptions"
_EXECUTOR_OPTIONS = "spark.executor.defaultJavaOptions"
_DRIVER_CLASS_PATH = "spark.driver.extraClassPath"

_LOG = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
"""Options of a JVM whose log lines are JSON; driver and executors have this file at the same place."""

_QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m"
"""With the quick compiler alone the JVM keeps 48 MiB of code, and then drops code that it needs again.

A driver of a query with four operators had 44 MiB after a hundred checkpoints. A local session, whose tasks are in the
same JVM, took 259 s of CPU for 84 checkpoints, and 207 s with more room.
"""
_HUGE_PAGES = "-XX:+UseTransparentHugePages"
"""Of a JVM that moves records: its hash tables and shuffles are large, and read at random (ADR 111)."""

_DEFAULTS = {
    # Larger batches, fewer crossings between the JVM and Python.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # The engine limits chosen stages: sparkapp/spark/frames/arrow_batches.py.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Compression has taken a sixth of the processors' time of a division of state (ADR 120).
    "spark.shuffle.compress": "false",
    # A sum of each row, to compare a stage that is submitted again with its first try. Where transactions are written
    # such a stage ends the attempt. Elsewhere another setting keeps the sum.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.streaming.metricsEnabled": "false",
    # A bar between the log lines, which are JSON.
    "spark.ui.showConsoleProgress": "false",
}


def session_settings(job: Job, *, directory: Path = Path(names.JOB_DIRECTORY)) -> dict[str, str]:
    """Every Spark setting of the attempt; nothing overrides the protocol's and the checkpoint's.

    Called by ``sparkapp run`` before the JVM starts.

    :param directory: mount of the operator's ``spark-conf.json``; without the file the session is local.
    """
    settings: dict[str, str] = {
        **_DEFAULTS,
        **STATE,
        **({} if job.spec.state_s3 is None else store_settings(job.spec.state_s3)),
        "spark.app.name": f"{job.namespace}.{job.name}",
        # A shuffle ends in as many writers as there are subtasks with transactional ids.
        SHUFFLE_PARTITIONS: str(job.spec.parallelism),
        "spark.default.parallelism": str(job.spec.parallelism),
    }
    file = directory / names.SPARK_CONF_KEY
    if file.exists():
        address = _in_url(os.environ["KAFKASPARK_POD_IP"])
        api_server = f"{_in_url(os.environ['KUBERNETES_SERVICE_HOST'])}:{os.environ['KUBERNETES_SERVICE_PORT']}"
        settings |= {
            "spark.master": f"k8s://https://{api_server}",
            # Both: with 0.0.0.0 executors are told to connect to 0.0.0.0.
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            # By default a context waits for four fifths of its executors, up to 30 s. Planning the query needs no
            # executor, and the first tasks wait for the first executor anyway.
            "spark.scheduler.minRegisteredResourcesRatio": "0",
        }
        given = json.loads(file.read_text(encoding="utf-8"))
        # The operator refuses these settings; an earlier release passed them on.
        settings |= {name: value for name, value in given.items() if not refusal_of(name)}
        settings[_DRIVER_OPTIONS] = _joined(f"-Dkafkaspark.log.pods={pods_log()}", given.get(_DRIVER_OPTIONS))
        if settings["spark.master"].startswith("k8s://"):  # a session without executor pods opens no port to others
            settings = {**ENCRYPTED, **settings, **AUTHENTICATED}
    else:
        settings |= {
            "spark.master": f"local[{job.spec.parallelism}]",
            "spark.ui.enabled": "false",
            _DRIVER_OPTIONS: _HUGE_PAGES,
        }
    settings[_EXECUTOR_OPTIONS] = _joined(_HUGE_PAGES, settings.get(_EXECUTOR_OPTIONS))
    code = code_directory()
    if Path(code).is_dir():
        settings[f"spark.executorEnv.{CODE_VARIABLE}"] = code
    settings |= {f"spark.executorEnv.{name}": value for name, value in variables_of(job.spec).items()}
    exactly_once = job.spec.sink.delivery_guarantee.transactional
    engine, _ = chosen_engine(job.spec)
    own = {**FORCED, **FIXED, **(FORCED_EXACTLY_ONCE if exactly_once else {})}
    if job.spec.wanted_state_partitions:
        # For a new query. A query that continues has its number in its log.
        own[SHUFFLE_PARTITIONS] = str(job.spec.wanted_state_partitions)
    own |= FORCED_CONTINUOUS if engine is Engine.CONTINUOUS else {}
    return with_class_archive(with_json_log(settings)) | own


def pods_log() -> Path:
    """The file in which the JVM of this process has why its executors' pods were refused, as lines of JSON."""
    return Path(tempfile.gettempdir()) / f"kafkaspark-pods-{os.getpid()}.log"


def with_json_log(settings: Mapping[str, str]) -> dict[str, str]:
    """Adds the options of the JVMs' logs; the user's options follow and win. Executors log from INFO, as Spark does."""
    return {
        **settings,
        _DRIVER_OPTIONS: _joined(_LOG, settings.get(_DRIVER_OPTIONS)),
        _EXECUTOR_OPTIONS: _joined(f"{_LOG} -Dkafkaspark.log.level=info", settings.get(_EXECUTOR_OPTIONS)),
    }


def _in_url(address: str) -> str:
    """An address in Spark's form: Kubernetes has IPv6 addresses without brackets."""
    return f"[{address}]" if ":" in address else address


def with_class_archive(settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Adds the settings that use the class archive, if there is one; the user's options follow and win.

    Executors get the class path from the image's entrypoint. The driver's JVM plans and coordinates but moves no
    records. So its quick compiler is enough, which again halves the CPU of a start.

    :param environment: variables; by default the process's.
    """
    folder = Path((os.environ if environment is None else environment).get(CLASSES_VARIABLE, ""))
    class_path = folder / "classpath"
    if not folder.name or not class_path.exists():
        return dict(settings)
    archive = f"-XX:SharedArchiveFile={folder / 'classes.jsa'}"
    paths = [class_path.read_text(encoding="utf-8"), settings.get(_DRIVER_CLASS_PATH, "")]
    return {
        **settings,
        _DRIVER_OPTIONS: _joined(f"{archive} {_QUICK_COMPILER}", settings.get(_DRIVER_OPTIONS)),
        _EXECUTOR_OPTIONS: _joined(archive, settings.get(_EXECUTOR_OPTIONS)),
        _DRIVER_CLASS_PATH: ":".join(filter(None, paths)),
    }


def _joined(ours: str, theirs: str | None) -> str:
    return f"{ours} {theirs}" if theirs else ours
