"""A subtask of the continuous engine in a process of its own: the real task, without Spark around it.

The test takes Spark's part: it starts the process, and another process where this one was killed. So a worker can be
killed and frozen by the signals of the operating system.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.dataplane.batch import open_consumer
from sparkapp.dataplane.interface import BatchConsumer
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Job
from sparkapp.sink import delivery
from sparkapp.sink.local_writer import LocalKafkaWriter
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.spark.tasks import subtask, worker_clients
from sparkapp.spark.tasks.control_channel import Address, SubtaskChannel, Wave
from sparkapp.spark.tasks.local import local_instance
from sparkapp.spark.tasks.write_task import WriteOrder, WriteResult, write_batches
from tests.support.protocol.moments import EndMoment, InstanceMoment, TaskMoment

MODULUS = 5
SILENT = b"silent"
"""Key of the records that the transform leaves out besides."""
TRANSFORM = Transform(arrow=ArrowTransform(function=f"{__name__}:let_through"))
_DIE_WITH_PARENT = 1
_BEGIN_SECONDS = 30.0

_PROCESSES = get_context("forkserver")
_PRELOADED = "tests.support.protocol.preloaded"
_PROCESSES.set_forkserver_preload([_PRELOADED])


def let_through(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The transform of a story: one number of five is left out, and what is silent."""
    numbers = pc.cast(pc.cast(batch.column("value"), pa.string()), pa.int64())
    multiples = pc.multiply(pc.divide(numbers, MODULUS), MODULUS)
    silent = pc.fill_null(pc.equal(pc.cast(batch.column("key"), pa.binary()), pa.scalar(SILENT)), False)
    return batch.filter(pc.and_not(pc.not_equal(numbers, multiples), silent)).select(["value"])


@dataclass
class SubtaskProcess:
    """The test's side of a process; made by :meth:`start`."""

    subtask: int
    process: Any
    _moments: Connection[Any, Any]
    _has_begun: bool = False

    @classmethod
    def start(cls, number: int, job_text: str, address: Address, *, wave: int, patience: float) -> SubtaskProcess:
        """:param patience: seconds that the subtask waits for the brokers before a checkpoint fails."""
        ours, its = _PROCESSES.Pipe()
        process = _PROCESSES.Process(target=_run, args=(number, job_text, (address, wave), its, patience), daemon=True)
        process.start()
        its.close()
        return cls(number, process, ours)

    @property
    def ended(self) -> bool:
        return not self.process.is_alive()

    def order(self, moment: TaskMoment | InstanceMoment | EndMoment | None) -> None:
        """In its next checkpoint it halts there; None: before it answers. In the local pace and at its end it halts at
        the next such moment."""
        with suppress(OSError, EOFError):
            while self._begins(0) and self._moments.poll():  # of an earlier halt
                self._moments.recv()
            self._moments.send(moment)

    @property
    def halts(self) -> bool:
        """Whether it has come to where it was ordered to halt."""
        return self._begins(0) and self._moments.poll()

    def release(self) -> None:
        """It continues where it has halted, or will not halt."""
        with suppress(OSError):
            self._moments.send("on")

    def freeze(self) -> None:
        """From its begin on: one that was frozen before would be left behind where this process is killed."""
        self._begins(_BEGIN_SECONDS)
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Without a word to anybody; frozen processes, too."""
        self._signal(signal.SIGKILL)
        self.process.join(10)

    def _begins(self, seconds: float) -> bool:
        if not self._has_begun and self._moments.poll(seconds):
            with suppress(OSError, EOFError):
                self._moments.recv()
            self._has_begun = True
        return self._has_begun

    def _signal(self, number: signal.Signals) -> None:
        # The process may have just ended: the fork server reports its end after it has reaped it.
        with suppress(ProcessLookupError):
            if not self.ended:
                os.kill(self.process.pid, number)


def _run(
    number: int, job_text: str, place: tuple[Address, int], moments: Connection[Any, Any], patience: float
) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    assert _PRELOADED in sys.modules, "the fork server passes over a module that it cannot import"
    # A frozen process would keep the fork server alive behind a test that was killed.
    os.close(vars(forkserver._forkserver)["_forkserver_alive_fd"])
    moments.send("begun")
    context: Any = TaskContext._getOrCreate()
    context._partitionId = number
    context._taskAttemptId = number
    parts: Any = vars(worker_clients)
    parts["open_consumer"] = partial(_patient_consumer, patience)
    parts["TransactionClient"] = partial(TransactionClient, timeout=patience)
    parts["ProducerPool"] = partial(ProducerPool, timeout=patience)
    vars(delivery)["writer_of"] = partial(delivery.writer_of, timeout=patience)
    vars(subtask)["write_batches"] = partial(_write_batches, moments)
    halts = _Halts(moments)
    vars(local_instance)["LocalKafkaWriter"] = partial(_HaltingWriter, halts)
    vars(subtask)["SubtaskChannel"] = partial(_HaltingChannel, halts)
    try:
        address, wave = place
        subtask.run_subtask(job_text, address, Wave(wave, 0, number + 1), iter(()))
    except subtask.KafkaSparkJobError as error:
        os.write(2, f"subtask {number}: {error}\n".encode())
        os._exit(1)


def _patient_consumer(patience: float, *parts: Any) -> BatchConsumer:
    consumer: Any = open_consumer(*parts)
    consumer.read = partial(consumer.read, stall_timeout=patience)
    return consumer  # type: ignore[no-any-return]


def _write_batches(
    moments: Connection[Any, Any], job: Job, order: WriteOrder, batches: Iterable[pa.RecordBatch], **options: Any
) -> WriteResult:
    """The write task, which halts where it was ordered to."""
    ordered = "nowhere"
    while moments.poll():
        ordered = moments.recv()
    result = write_batches(job, order, _halting(batches, moments, ordered), **options)
    if ordered is None:
        _halt(moments)
    return result


def _halting(
    batches: Iterable[pa.RecordBatch], moments: Connection[Any, Any], ordered: str | None
) -> Generator[pa.RecordBatch, None, None]:
    if ordered == TaskMoment.BEGUN:
        _halt(moments)
    for number, batch in enumerate(batches):
        if number == 0 and ordered == TaskMoment.READ:
            _halt(moments)
        yield batch
    if ordered == TaskMoment.PRODUCED:
        _halt(moments)


def _halt(moments: Connection[Any, Any]) -> None:
    moments.send("halts")
    moments.recv()


class _Halts:
    """Where a subtask halts next, outside of the write task."""

    def __init__(self, moments: Connection[Any, Any]) -> None:
        self._moments = moments
        self._ordered: InstanceMoment | EndMoment | str = "nowhere"

    def at(self, moment: InstanceMoment | EndMoment) -> None:
        while self._moments.poll():
            self._ordered = self._moments.recv()
        if self._ordered == moment:
            self._ordered = "nowhere"
            _halt(self._moments)


class _HaltingWriter(LocalKafkaWriter):
    """The writer of the local pace, which halts where it was ordered to."""

    def __init__(self, halts: _Halts, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._halts = halts

    def open(self) -> None:
        super().open()
        self._halts.at(InstanceMoment.OPENED)

    def commit(self, *parts: Any, **options: Any) -> bool:
        self._halts.at(InstanceMoment.COMMITS)
        may_go_on = super().commit(*parts, **options)
        self._halts.at(InstanceMoment.COMMITTED)
        return may_go_on


class _HaltingChannel(SubtaskChannel):
    """The subtask's connection, which halts behind the last answer where it was ordered to."""

    def __init__(self, halts: _Halts, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._halts = halts

    def stopped(self, failure: str) -> None:
        super().stopped(failure)
        self._halts.at(EndMoment.ANSWERED)
