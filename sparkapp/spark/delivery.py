"""What ``sink.semantic: NONE`` has in its workers: failures that reports tell of later, and records at an orderly end.

Nothing waits for the records of a checkpoint, so they may still be with the client of a Python worker when the last
checkpoint is complete. An orderly end sends them, as closing Flink's producer does.
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

from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import KafkaSparkJobError, PreCommitFailed
from sparkapp.model.job import Job
from sparkapp.model.job_codec import encode_job
from sparkapp.spark.failures import original_error
from sparkapp.spark.session import count_executors
from sparkapp.spark.write_task import RESULT_DDL, RESULT_SCHEMA, printed

LOG = logging.getLogger(__name__)

_SECONDS = 60.0
"""For all of it; half of what Kubernetes waits for a driver that is stopped."""
_FLUSH_SECONDS = 30.0
_ABREAST_SECONDS = 0.2
"""A task stays in its worker for so long that the others of its round run beside it, in other workers."""
_REMEDY = (
    "check the sink topic's brokers, the rights on it and max.message.bytes; with sink.semantic: NONE what was refused"
    " is not written again"
)


def require_delivered(failures: Iterable[str]) -> None:
    """Called by the engine with what its write tasks say of records that were not delivered.

    :param failures: of the tasks; empty where there is none.
    :raises PreCommitFailed: and what the first failure means.
    """
    failure = next((one for one in failures if one), "")
    if not failure:
        return
    error = original_error(failure)
    raise PreCommitFailed(error.message, remedy=_REMEDY) if type(error) is PreCommitFailed else error


def flush_workers(session: SparkSession, job: Job) -> None:
    """Waits until the clients of all Python workers have sent what they have; the driver does so at an orderly end.

    Spark does not say how many workers there are, but gives a task the one that has been idle longest. So tasks run in
    rounds, until in each executor one of them meets a worker that has been met before: all others have been, too.

    :raises PreCommitFailed: a record is not delivered, or the time is over; and what a failure means.
    """
    over = threading.Event()

    def give_up() -> None:
        over.set()
        session.sparkContext.cancelAllJobs()

    # Where no executor is left a task would wait for one for ever.
    watchdog = threading.Timer(_SECONDS, give_up)
    watchdog.start()
    try:
        _flush_in_rounds(session, job, Deadline.after(_SECONDS))
    except KafkaSparkJobError:
        raise
    except Exception as error:
        if not over.is_set():
            raise
        msg = f"not every worker has sent its records within {_SECONDS:g} s"
        raise PreCommitFailed(msg, remedy=_REMEDY) from error
    finally:
        watchdog.cancel()


def _flush_in_rounds(session: SparkSession, job: Job, deadline: Deadline) -> None:
    tasks = max(job.spec.parallelism, count_executors(session))
    met: dict[str, set[int]] = defaultdict(set)
    through: set[str] = set()
    while len(through) < count_executors(session):
        if deadline.expired:
            msg = f"not every worker has been asked for its records within {_SECONDS:g} s"
            raise PreCommitFailed(msg, remedy=_REMEDY)
        one_a_task = session.range(0, tasks, 1, tasks)
        rows = one_a_task.mapInArrow(partial(_flush_worker, encode_job(job)), RESULT_DDL).collect()
        answers = [json.loads(row.result) for row in rows]
        require_delivered(one["failure"] for one in answers)
        for one in answers:
            if one["worker"] in met[one["executor"]]:
                through.add(one["executor"])
            met[one["executor"]].add(one["worker"])
    LOG.info("%d workers have sent what they had", sum(len(workers) for workers in met.values()))


def _flush_worker(job_text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in an executor's Python worker; tells which one it is. A failure is told, for a task is tried again."""
    from sparkapp.spark.worker_clients import job_of, opened_producers

    for _ in batches:
        pass
    failure = ""
    pool = opened_producers(job_of(job_text))
    if pool is not None:
        try:
            pool.flush_plain(_FLUSH_SECONDS)
        except KafkaSparkJobError as error:
            failure = printed(error)
    time.sleep(_ABREAST_SECONDS)
    # Workers are forks of their executor's daemon.
    answer: dict[str, Any] = {
        "executor": f"{socket.gethostname()}/{os.getppid()}",
        "worker": os.getpid(),
        "failure": failure,
    }
    yield pa.RecordBatch.from_pydict({"result": [json.dumps(answer)]}, schema=RESULT_SCHEMA)
