"""The Spark jobs whose tasks are the subtasks: the first runs for as long as the attempt."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.tasks.control_channel import Address, Wave
from sparkapp.spark.tasks.subtask import run_subtask


class Subtasks:
    """Starts one Spark task for each subtask; Spark starts a task again whose worker or executor is lost.

    The jobs have no data, so they are of Spark's core. A frame would have to be planned and compiled, which a cold JVM
    takes a second for.

    A rescale in place adds a wave of tasks, which is a Spark job of its own. It ends tasks over their connections, and
    the job of their wave ends with its last task.

    :ivar count: number of subtasks whose tasks have been started and not asked to end.
    """

    def __init__(self, job: Job, *, spark: Spark, address: Address) -> None:
        self._spark = spark
        self._job = job
        self._address = address
        self._tag = f"subtasks-{uuid.uuid4()}"
        self._waves: list[Future[None]] = []
        self.count = 0

    @property
    def next_wave(self) -> int:
        """Number of the next wave."""
        return len(self._waves)

    def start(self, count: int) -> None:
        """Submits a job with the tasks of the next subtasks, up to this number of subtasks; returns at once."""
        wave = Wave(self.next_wave, first=self.count, count=count - self.count)
        self.count = count
        self._waves.append(run_in_background(partial(self._run, wave), name=f"subtasks-job-{wave.number}"))

    @property
    def ended(self) -> bool:
        """Whether no task runs any more, or a job has failed."""
        return self.failure() is not None or all(wave.done() for wave in self._waves)

    def failure(self) -> BaseException | None:
        """Why a job failed; None if all run, or ended in order."""
        return next((error for wave in self._waves if wave.done() and (error := wave.exception()) is not None), None)

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

    def _run(self, wave: Wave) -> None:
        context = self._spark.sparkContext
        context.addJobTag(self._tag)
        context.setJobDescription(f"subtasks {wave.first} to {wave.first + wave.count - 1}")
        job = replace(self._job, spec=replace(self._job.spec, parallelism=wave.first + wave.count))
        task = partial(run_subtask, encode_job(job), self._address, wave)
        context.parallelize(range(wave.count), wave.count).foreachPartition(task)
