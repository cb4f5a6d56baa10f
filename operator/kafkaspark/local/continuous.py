"""A job of the continuous engine over given batches: its decoder and its function, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime

import pyarrow as pa

from kafkaspark.local.output import Output
from kafkaspark.local.records import sink_records
from sparkapp.dataplane.output_batch import OutputBatch
from sparkapp.dataplane.settings import BATCH_ROWS
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.source.watermarks.subtask_watermark import NO_LIMIT, NO_WATERMARK, GivenWatermarks, SubtaskWatermark
from sparkapp.spark.failures import original_error, printed
from sparkapp.spark.frames.batch_transform import no_watermark, transform_of
from sparkapp.spark.frames.failed.failed_records import failed_records_of
from sparkapp.spark.frames.record_policy import write_failed
from sparkapp.spark.tasks.record_decoder import RecordDecoder


def run_continuous(job: Job, checkpoints: Iterable[pa.RecordBatch]) -> Output:
    """Runs the job as its only subtask would, from its first checkpoint on.

    :param checkpoints: a batch of the source for each.
    :raises KafkaSparkJobError: as the job would fail.
    """
    checkpoints = list(checkpoints)
    decoder, output = RecordDecoder(job), Output()
    watch, watermark = _watermarks(job, checkpoints)
    try:
        with closing(transform_of(job.spec, failed_records_of(job))) as transform:
            transform.open()
            for batch in checkpoints:
                records = decoder.decode(watch(_cut(batch)))
                for result in transform.map(records, watermark=watermark):
                    OutputBatch.of(result)  # refuses what the sink cannot write
                    output += sink_records(result, job.spec.sink.topic)
                output.skipped += write_failed(job, output)
    except KafkaSparkJobError:
        raise
    except Exception as error:
        raise original_error(printed(error)) from error
    output.skipped += decoder.skipped
    return output


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Batches of at most the rows that the engine's batches have."""
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def _watermarks(
    job: Job, checkpoints: Iterable[pa.RecordBatch]
) -> tuple[Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], Callable[[], datetime | None]]:
    bound = job.spec.source.max_out_of_orderness_seconds
    if bound is None:
        return iter, no_watermark
    places = {
        TopicPartition(row["topic"], row["partition"])
        for batch in checkpoints
        for row in batch.select(["topic", "partition"]).to_pylist()
    }
    given = GivenWatermarks(own=NO_WATERMARK, others=NO_LIMIT, partitions=dict.fromkeys(places, NO_WATERMARK))
    watermark = SubtaskWatermark(given, bound_millis=bound * 1000)
    return watermark.watch, watermark.time
