"""A subtask of the continuous engine: one Spark task that reads, transforms and writes until it is asked to end."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sparkapp.dataplane.statistics import BUSY_MILLIS, TOTALS
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.spec import Job
from sparkapp.source.watermarks.subtask_watermark import TIME_COLUMNS, ReachedWatermarks, SubtaskWatermark
from sparkapp.spark.failures import printed
from sparkapp.spark.frames.batch_transform import BatchTransform, no_watermark, transform_of
from sparkapp.spark.frames.failed.failed_records import failed_records_of
from sparkapp.spark.tasks import client_totals
from sparkapp.spark.tasks.control_channel import Address, SubtaskChannel, Wave
from sparkapp.spark.tasks.control_frames import Work
from sparkapp.spark.tasks.inbox import CheckpointRead, Inbox
from sparkapp.spark.tasks.record_decoder import RecordDecoder
from sparkapp.spark.tasks.write_task import (
    WriteOrder,
    WriteResult,
    encode_result,
    write_batches,
    writer_for,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkapp.sink.producers.producer_pool import ProducerPool

LOG = logging.getLogger(__name__)

_FLUSH_SECONDS = 30.0


def run_subtask(job_text: str, address: Address, wave: Wave, _: Iterator[int]) -> None:
    """Runs in an executor's Python worker for as long as the attempt runs (``RDD.foreachPartition``).

    A failed checkpoint is answered, and the engine decides whether the subtask tries again. So Spark retries the task
    only where the worker or the driver's connection is lost.

    :param job_text: the job's JSON.
    :param address: of the engine.
    :param wave: of the task, whose first task is that of the wave's first subtask.
    :raises SubtaskDisconnected: the connection to the driver ended.
    """
    from pyspark import TaskContext

    from sparkapp.spark.tasks.worker_clients import drop_consumer, interrupt_consumer, job_of, know_brokers

    context = TaskContext.get()
    assert context is not None, "a task of Spark"
    job, subtask = job_of(job_text), wave.first + context.partitionId()
    with ExitStack() as stack:
        stack.callback(drop_consumer, job)  # it may have been interrupted
        if not job.spec.has_local_pace:
            know_brokers(job)  # A connected subtask is counted as ready, by a rescale in place and by a standby driver.
        channel = stack.enter_context(
            SubtaskChannel(
                address, subtask=subtask, task=context.taskAttemptId(), wave=wave.number,
                lost=partial(interrupt_consumer, job),
            )
        )  # fmt: skip
        if job.spec.has_local_pace:
            from sparkapp.spark.tasks.local.local_subtask import LocalSubtask

            LocalSubtask(job, channel, subtask=subtask).run()
        else:
            _run_two_phase(job, channel, subtask=subtask)


def _run_two_phase(job: Job, channel: SubtaskChannel, *, subtask: int) -> None:
    from sparkapp.spark.tasks.worker_clients import consumer_for, drop_consumer, opened_producers, wake_consumer

    inbox = Inbox(channel, wake=partial(wake_consumer, job))
    with closing(transform_of(job.spec, failed_records_of(job))) as transform:
        decoder = RecordDecoder(job)
        with suppress(Exception):  # it is raised again, and reported, with the first work
            transform.open()
            consumer_for(job)
        while (work := inbox.next_work()) is not None:
            checkpoint_id = work.order.checkpoint_id
            try:
                result, watermarks = _complete(
                    job, work, inbox, decoder, transform, is_own=work.order.subtask == subtask
                )
            except Exception as error:
                LOG.exception("checkpoint %d failed", checkpoint_id)
                drop_consumer(job)
                transform.close()
                if (pool := opened_producers(job)) is not None:
                    pool.give_up()  # an attempt that fails must find no producer of it that still fences
                channel.failed(checkpoint_id, printed(error), subtask=work.order.subtask)
            else:
                channel.completed(checkpoint_id, encode_result(result), watermarks, subtask=work.order.subtask)
        channel.stopped(_flushed(opened_producers(job)))


def _complete(
    job: Job, work: Work, inbox: Inbox, decoder: RecordDecoder, transform: BatchTransform, *, is_own: bool
) -> tuple[WriteResult, ReachedWatermarks | None]:
    """Reads, decodes, transforms and writes one checkpoint's part, up to its pre-commit.

    :param is_own: whether it is no lost subtask's work, which has its own producers when it is back.
    """
    from sparkapp.spark.tasks.worker_clients import consumer_for

    transform.open()
    began = time.monotonic()
    order = work.order if is_own else replace(work.order, reusable=None)
    skipped = decoder.skipped
    watermark = _watermark_of(job, work)
    columns = transform.source_columns | decoder.source_columns
    if watermark is not None:
        columns |= TIME_COLUMNS
    interval = job.spec.checkpoint_interval
    read = CheckpointRead(work, inbox=inbox, consumer=consumer_for(job), columns=columns, interval=interval)
    batches = read.batches()
    with closing(decoder.decode(batches if watermark is None else watermark.watch(batches))) as records:
        results = transform.map(records, watermark=no_watermark if watermark is None else watermark.time)
        results = _preparing_next(job, order, results) if is_own else results
        result = write_batches(
            job, order, results, index=order.subtask, ranges=lambda: read.ranges,
            awaits_barrier=lambda: read.awaits_barrier,
        )  # fmt: skip
    TOTALS.add({BUSY_MILLIS: max(0, round((time.monotonic() - began - read.waited) * 1000))})
    result = replace(
        result, skipped=result.skipped + decoder.skipped - skipped, clients=client_totals.own(), stops=read.stops
    )
    return result, None if watermark is None else watermark.reached


def _watermark_of(job: Job, work: Work) -> SubtaskWatermark | None:
    bound = job.spec.source.max_out_of_orderness_seconds
    if work.watermarks is None or bound is None:
        return None
    return SubtaskWatermark(work.watermarks, bound_millis=bound * 1000)


def _preparing_next(
    job: Job, order: WriteOrder, batches: Iterable[pa.RecordBatch]
) -> Generator[pa.RecordBatch, None, None]:
    """The batches. Opens the next checkpoint's producer when this checkpoint's transaction has begun (ADR 52).

    Only where the group's offsets prove the outcome of a transaction that this may end by mistake.
    """
    prepared = order.group_id is None
    for batch in batches:
        yield batch
        if batch.num_rows and not prepared:
            writer_for(job, order).prepare_next(order.checkpoint_id + 1)
            prepared = True


def _flushed(pool: ProducerPool | None) -> str:
    """Sends what a producer without guarantee still has; returns the failure as text, or nothing.

    A producer that was opened for a next checkpoint can fence nothing after that.
    """
    try:
        if pool is not None:
            pool.give_up()
            pool.drop_kept()
            pool.flush_plain(_FLUSH_SECONDS)
    except KafkaSparkJobError as error:
        return printed(error)
    return ""
