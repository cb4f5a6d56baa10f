"""Every Spark setting of an attempt, known before anything heavy is imported: the JVM starts with them at once."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.job import Job
from sparkapp.model.semantic import Semantic
from sparkapp.model.spark_settings import FORCED, FORCED_EXACTLY_ONCE, is_protocols
from sparkapp.spark.class_archive import with_class_archive
from sparkapp.spark.preload import VARIABLE, wanted_by

_DEFAULTS = {
    # Larger batches, fewer crossings between the JVM and Python.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # The engine limits the stages that can afford it: sparkapp/spark/arrow_batches.py.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}

_ALWAYS = {
    **FORCED,
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
        address = _in_url(os.environ["KAFKASPARK_POD_IP"])
        api_server = f"{_in_url(os.environ['KUBERNETES_SERVICE_HOST'])}:{os.environ['KUBERNETES_SERVICE_PORT']}"
        settings |= {
            "spark.master": f"k8s://https://{api_server}",
            # Both: with 0.0.0.0 executors are told to connect to 0.0.0.0.
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            # By default a context waits for four fifths of its executors, up to 30 s. Planning the query needs none of
            # them, and the first tasks wait for the first executor by themselves.
            "spark.scheduler.minRegisteredResourcesRatio": "0",
        }
        given = json.loads(file.read_text(encoding="utf-8"))
        # The operator refuses those of the protocol; one of an earlier release passed them on.
        settings |= {name: value for name, value in given.items() if not is_protocols(name)}
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
    exactly_once = job.spec.sink.semantic is Semantic.EXACTLY_ONCE
    own = {**_ALWAYS, **(FORCED_EXACTLY_ONCE if exactly_once else {})}
    return with_class_archive(settings) | own


def _in_url(address: str) -> str:
    """An address as Spark wants it: Kubernetes tells those of IPv6 without brackets."""
    return f"[{address}]" if ":" in address else address


def code_directory() -> str:
    """Where user modules from a ConfigMap are; ``KAFKASPARK_CODE`` names another place outside a pod."""
    return os.environ.get("KAFKASPARK_CODE", names.CODE_DIRECTORY)
