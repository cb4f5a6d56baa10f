"""The Spark job whose tasks are the subtasks: it runs for as long as the attempt."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job
from sparkapp.spark.tasks.control_channel import Address
from sparkapp.spark.tasks.subtask import run_subtask
from sparkapp.spark.tasks.write_task import RESULT_DDL


class Subtasks:
    """Starts one Spark task for each subtask; Spark starts a task again whose worker or executor is lost."""

    def __init__(self, job: Job, *, spark: SparkSession, address: Address) -> None:
        self._spark = spark
        self._count = job.spec.parallelism
        self._task: Any = partial(run_subtask, encode_job(job), address)
        self._tag = f"subtasks-{uuid.uuid4()}"
        self._done: Future[None] | None = None

    def start(self) -> None:
        """Submits the job; returns at once."""
        self._done = run_in_background(self._run, name="subtasks-job")

    @property
    def ended(self) -> bool:
        """Whether no task runs any more."""
        return self._done is None or self._done.done()

    def failure(self) -> BaseException | None:
        """Why the job ended; None if it runs, or ended in order."""
        return self._done.exception() if self._done is not None and self._done.done() else None

    def start_again(self, task: int) -> None:
        """Ends one try of a task, and Spark starts the task again; it does not count as a failure.

        Spark ends the task's Python worker by SIGKILL, also if it is frozen. An executor that does not hear of it is
        lost for Spark after ``spark.network.timeout``.

        :param task: Spark's id of the try.
        """
        self._spark.sparkContext._jsc.sc().killTaskAttempt(task, True, "its subtask is silent")

    def cancel(self) -> None:
        """Ends every task, without waiting."""
        self._spark.sparkContext.cancelJobsWithTag(self._tag)

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.addJobTag(self._tag)
        context.setJobDescription(f"{self._count} subtasks")
        row_per_subtask = self._spark.range(0, self._count, 1, self._count)
        row_per_subtask.mapInArrow(self._task, RESULT_DDL).collect()
