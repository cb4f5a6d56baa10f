"""A subtask in the local pace: it reads without end, and commits its own transactions (ADR 56)."""

from __future__ import annotations

import logging
import queue
import time

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaSparkJobError, SubtaskDisconnected
from sparkapp.model.job.spec import Job
from sparkapp.spark.failures import printed
from sparkapp.spark.frames.batch_transform import transform_of
from sparkapp.spark.frames.failed.failed_records import failed_records_of
from sparkapp.spark.frames.record_policy import judges_records
from sparkapp.spark.tasks import client_totals
from sparkapp.spark.tasks.control_channel import SubtaskChannel
from sparkapp.spark.tasks.control_frames import (
    InstanceOrder,
    SubtaskReport,
    decode_instance_order,
)
from sparkapp.spark.tasks.local.local_instance import WAIT_SECONDS, LocalInstance
from sparkapp.spark.tasks.record_decoder import RecordDecoder

LOG = logging.getLogger(__name__)

_REPORT_SECONDS = 0.2
"""Shortest time between two reports of what was committed."""
_SIGN_SECONDS = 5.0
"""Longest time without a report, and shortest between two reports of the clients' totals."""
_NOTHING = InstanceOrder(instance=0)
"""No order has come."""


class LocalSubtask:
    """Made for a Spark task, and used by its thread.

    It has one instance at a time. After an error or a doubt it waits for the engine's order to open the next.

    :param subtask: its number.
    """

    def __init__(self, job: Job, channel: SubtaskChannel, *, subtask: int) -> None:
        self._job = job
        self._channel = channel
        self._subtask = subtask
        self._transform = transform_of(job.spec, failed_records_of(job))
        self._decoder = RecordDecoder(job)
        self._orders: queue.SimpleQueue[InstanceOrder | None] = queue.SimpleQueue()
        self._receiving = run_in_background(self._receive, name="orders")
        self._instance: LocalInstance | None = None
        self._counts = judges_records(job.spec)
        self._reported = 0
        self._reported_at = self._signed_at = 0.0

    def run(self) -> None:
        """Runs until the engine asks for the end.

        :raises SubtaskDisconnected: the connection to the driver ended.
        """
        failure = ""
        try:
            self._say(SubtaskReport(instance=0, waits=True))
            while self._step():
                pass
            try:
                self._end_in_order()
            except KafkaSparkJobError as error:
                failure = printed(error)
        finally:
            self._close()
        self._channel.stopped(failure)

    def _receive(self) -> None:
        while True:
            self._orders.put(decode_instance_order(self._channel.receive_body()))

    def _step(self) -> bool:
        """Obeys an order, or reads and writes; False: the engine asks for the end."""
        instance = self._instance
        try:
            if self._receiving.done():
                self._receiving.result()
            order = self._next_order()
            if order is None:
                return False
            if order is not _NOTHING:
                self._obey(order)
            elif instance is not None:
                instance.turn()
            instance = self._instance
            if instance is not None and instance.is_over:
                LOG.info("instance %d has committed, and is replaced", instance.number)
                self._wait_for_next(instance, "")
            self._report_if_due()
        except SubtaskDisconnected:
            raise
        except Exception as error:
            LOG.exception("instance %d failed", 0 if self._instance is None else self._instance.number)
            self._fail(error)
        return True

    def _next_order(self) -> InstanceOrder | None:
        try:
            reads = self._instance is not None and self._instance.reads
            return self._orders.get(block=not reads, timeout=WAIT_SECONDS)
        except queue.Empty:
            return _NOTHING

    def _obey(self, order: InstanceOrder) -> None:
        instance = self._instance
        if order.open:
            self._open(order)
        elif instance is None or order.instance != instance.number:
            LOG.info("an order for instance %d is late", order.instance)
        elif order.place is not None:
            instance.place(order.place, order.mark)
            if not instance.is_over:
                self._say(SubtaskReport(instance=instance.number, placed=order.place))
        else:
            instance.read(order.read, order.drop)

    def _open(self, order: InstanceOrder) -> None:
        self._close()
        try:
            self._instance = LocalInstance(
                self._job, number=order.instance, transactional_id=order.open, subtask=self._subtask,
                transform=self._transform, decoder=self._decoder,
            )  # fmt: skip
        except SubtaskDisconnected:
            raise
        except Exception as error:
            LOG.exception("instance %d could not be opened", order.instance)
            self._transform.close()
            self._say(SubtaskReport(instance=order.instance, waits=True, failure=printed(error)))
        else:
            self._reported = 0
            self._say(SubtaskReport(instance=order.instance, opened=True))

    def _fail(self, error: Exception) -> None:
        instance = self._instance
        if instance is None:
            raise error
        uncommitted = instance.uncommitted
        instance.abort()
        self._transform.close()
        self._wait_for_next(instance, printed(error), uncommitted)

    def _wait_for_next(
        self, instance: LocalInstance, failure: str, reading: tuple[KafkaPartitionSplit, ...] = ()
    ) -> None:
        self._report(instance)
        self._close()
        self._say(SubtaskReport(instance=instance.number, waits=True, failure=failure, reading=reading))

    def _end_in_order(self) -> None:
        instance = self._instance
        if instance is not None:
            instance.commit_rest()
            self._report(instance)

    def _close(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _report_if_due(self) -> None:
        instance, now = self._instance, time.monotonic()
        if instance is None:
            return
        has_news = instance.totals["transactions"] != self._reported
        if now > self._reported_at + (_REPORT_SECONDS if has_news else _SIGN_SECONDS):
            self._report(instance)

    def _report(self, instance: LocalInstance) -> None:
        now = self._reported_at = time.monotonic()
        # With the counts of records that are committed, so that the checkpoint after this report judges them.
        has_counts = self._counts and instance.totals["transactions"] != self._reported
        self._reported = instance.totals["transactions"]
        clients: dict[str, dict[str, int]] = {}
        if has_counts or now > self._signed_at + _SIGN_SECONDS:
            self._signed_at = now
            clients = client_totals.own()
        self._say(
            SubtaskReport(instance=instance.number, offsets=instance.committed, totals=instance.totals, clients=clients)
        )

    def _say(self, report: SubtaskReport) -> None:
        self._channel.report(report)
