"""Flushes producers without a guarantee in all Python workers at shutdown and surfaces late delivery failures.

With ``sink.deliveryGuarantee: None`` no checkpoint waits for its records. So a worker's client may still have some when
the last checkpoint is complete. An orderly stop sends them, as Flink's ``KafkaSink`` does when it closes its producer.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import KafkaSparkJobError, PreCommitFailed, RecordRefused
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job
from sparkapp.spark.failures import original_error, printed
from sparkapp.spark.launch.session import count_executors
from sparkapp.spark.tasks.write_task import RESULT_DDL, RESULT_SCHEMA

LOG = logging.getLogger(__name__)

_SECONDS = 60.0
"""For all rounds: half of the time that Kubernetes gives a driver to stop."""
_FLUSH_SECONDS = 30.0
_OVERLAP_SECONDS = 0.2
"""A task keeps its worker busy for this long, so that the other tasks of its round run in other workers."""
_NOT_AGAIN = "With sink.deliveryGuarantee: None refused records are not written again"
_REMEDY = f"check the brokers of the sink topic, the rights on it and its max.message.bytes. {_NOT_AGAIN}"


def require_delivered(failures: Iterable[str]) -> None:
    """Raises the first delivery failure; called by the write stage with the answers of its tasks.

    :param failures: of each task, by :func:`printed`; empty without a failure.
    :raises PreCommitFailed: or another error that the text names.
    """
    failure = next((text for text in failures if text), "")
    if not failure:
        return
    error = original_error(failure)
    if isinstance(error, RecordRefused):
        # It may be of a checkpoint that is complete, whose ranges are not known any more.
        raise PreCommitFailed(error.message, remedy=f"{error.remedy}. {_NOT_AGAIN}")
    raise PreCommitFailed(error.message, remedy=_REMEDY) if type(error) is PreCommitFailed else error


def not_everything_sent(what: str) -> PreCommitFailed:
    """The error of an orderly stop whose last records may be lost; raised by both engines.

    :param what: who did not answer.
    """
    return PreCommitFailed(what, remedy=_REMEDY)


def flush_workers(session: SparkSession, job: Job) -> None:
    """Waits until the clients of all Python workers have sent their records; called by the engine at an orderly stop.

    Spark does not tell how many workers there are, but gives a task the worker that has been idle longest. So tasks run
    in rounds, until in each executor a task gets a worker for the second time. All other workers were used by then.

    :raises PreCommitFailed: a record was not delivered, or the time is over.
    :raises KafkaSparkJobError: any other error that a worker's failure names.
    """
    over = threading.Event()

    def give_up() -> None:
        over.set()
        session.sparkContext.cancelAllJobs()

    # Without executors a task would wait for ever.
    watchdog = threading.Timer(_SECONDS, give_up)
    watchdog.start()
    try:
        _flush_in_rounds(session, job, Deadline.after(_SECONDS))
    except KafkaSparkJobError:
        raise
    except Exception as error:
        if not over.is_set():
            raise
        raise not_everything_sent(f"not every worker sent its records within {_SECONDS:g} s") from error
    finally:
        watchdog.cancel()


def _flush_in_rounds(session: SparkSession, job: Job, deadline: Deadline) -> None:
    tasks = max(job.spec.parallelism, count_executors(session))
    met: dict[str, set[int]] = defaultdict(set)
    through: set[str] = set()
    while len(through) < count_executors(session):
        if deadline.expired:
            raise not_everything_sent(f"not every worker was asked for its records within {_SECONDS:g} s")
        row_per_task = session.range(0, tasks, 1, tasks)
        rows = row_per_task.mapInArrow(partial(_flush_worker, encode_job(job)), RESULT_DDL).collect()
        answers = [json.loads(row.result) for row in rows]
        require_delivered(answer["failure"] for answer in answers)
        for answer in answers:
            if answer["worker"] in met[answer["executor"]]:
                through.add(answer["executor"])
            met[answer["executor"]].add(answer["worker"])
    LOG.info("flushed the producers of %d workers", sum(len(workers) for workers in met.values()))


def _flush_worker(job_text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in an executor's Python worker; answers with its ids. A failure is answered: Spark retries a failed task."""
    from sparkapp.spark.tasks.worker_clients import job_of, opened_producers

    for _ in batches:
        pass
    failure = ""
    pool = opened_producers(job_of(job_text))
    if pool is not None:
        try:
            pool.flush_plain(_FLUSH_SECONDS)
        except KafkaSparkJobError as error:
            failure = printed(error)
    time.sleep(_OVERLAP_SECONDS)
    # Workers are forks of their executor's daemon.
    answer: dict[str, Any] = {
        "executor": f"{socket.gethostname()}/{os.getppid()}",
        "worker": os.getpid(),
        "failure": failure,
    }
    yield pa.RecordBatch.from_pydict({"result": [json.dumps(answer)]}, schema=RESULT_SCHEMA)
