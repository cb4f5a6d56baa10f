"""The Spark jobs whose tasks are the subtasks: the first runs for as long as the attempt."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from concurrent.futures import Future
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
    the job of their wave ends with its last task. Tasks without a place cannot be asked, so their job is cancelled.

    :ivar count: number of subtasks whose tasks have been started and not asked to end.
    """

    def __init__(self, job: Job, *, spark: Spark, address: Address) -> None:
        self._spark = spark
        self._job_text = encode_job(job)
        self._address = address
        self._tag = f"subtasks-{uuid.uuid4()}"
        self._jobs: dict[Wave, Future[None]] = {}
        self._withdrawn: set[Wave] = set()
        self.count = 0

    @property
    def next_wave(self) -> int:
        """Number of the next wave."""
        return len(self._jobs)

    def start(self, count: int) -> None:
        """Submits a job with the tasks of the next subtasks, up to this number of subtasks; returns at once."""
        wave = Wave(self.next_wave, first=self.count, count=count - self.count)
        self.count = count
        self._jobs[wave] = run_in_background(partial(self._run, wave), name=f"subtasks-job-{wave.number}")

    def withdraw(self, count: int) -> None:
        """Called when all tasks from this subtask on are asked to end, now or as soon as they connect."""
        self.count = count
        self._withdrawn |= {wave for wave in self._jobs if wave.first >= count}

    def cancel_withdrawn(self, ending: Collection[int]) -> None:
        """Ends the jobs of withdrawn waves, without waiting. Called often: Spark may not have a job yet.

        :param ending: subtasks with a task that may still send its answer; their waves are left alone.
        """
        for wave in self._withdrawn:
            if not self._jobs[wave].done() and not any(wave.first <= each < wave.first + wave.count for each in ending):
                self._spark.sparkContext.cancelJobsWithTag(self._tag_of(wave))

    @property
    def ended(self) -> bool:
        """Whether no task runs any more, or a job has failed."""
        return self.failure() is not None or all(job.done() for job in self._jobs.values())

    def failure(self) -> BaseException | None:
        """Why a job failed; None if all run, or ended in order. The job of a withdrawn wave may be cancelled."""
        needed = (job for wave, job in self._jobs.items() if wave not in self._withdrawn)
        return next((error for job in needed if job.done() and (error := job.exception()) is not None), None)

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
        context.addJobTag(self._tag_of(wave))
        context.setJobDescription(f"subtasks {wave.first} to {wave.first + wave.count - 1}")
        task = partial(run_subtask, self._job_text, self._address, wave)
        context.parallelize(range(wave.count), wave.count).foreachPartition(task)

    def _tag_of(self, wave: Wave) -> str:
        return f"{self._tag}-{wave.number}"
