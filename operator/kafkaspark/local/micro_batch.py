"""A job of the micro-batch engine over given batches: a bounded stream of Spark, with its state and its watermark."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from kafkaspark.local.output import Output
from kafkaspark.local.project import Project
from kafkaspark.local.records import sink_records
from kafkaspark.local.spark import LocalSpark
from sparkapp.formats.encoders.record_encoder import RecordEncoder, encodes_result
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import ConfigurationError, KafkaSparkJobError, TransformFailed
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.micro_batch.failed_search import FailedSearch
from sparkapp.spark.engine.micro_batch.growing_state import growing_state
from sparkapp.spark.failures import original_error
from sparkapp.spark.frames.failed.failed_records import failed_records_of, tell_nobody
from sparkapp.spark.frames.failed.failure import file_rows
from sparkapp.spark.frames.failed.left_out import LeftOut
from sparkapp.spark.frames.failed.letters_apart import letters_in, planned
from sparkapp.spark.frames.query_plan import is_aligned, partition_count, stateful_nodes
from sparkapp.spark.frames.record_policy import (
    attempt_key,
    catches,
    diverts,
    observed_tallies,
    require_aligned,
    without_letters,
)
from sparkapp.spark.frames.records import decode_records, encode_records, letters_of
from sparkapp.spark.frames.transform import apply_transform, import_function, refused_by_streaming
from sparkapp.spark.tasks.data_source import SOURCE_DDL

_SOURCE = "FileScanRDD"
_STATE = "the transform keeps state (an aggregation, deduplication or join): the job has no place for it"
_STATE_REMEDY = "use a transform without state, or name a volume in spec.checkpoint.stateVolume.claimName"


def run_micro_batch(job: Job, checkpoints: Sequence[pa.RecordBatch], spark: LocalSpark, project: Project) -> Output:
    """Runs the job from its first checkpoint on, and ends when it has nothing more to write.

    :param checkpoints: a batch of the source for each.
    :param project: has ``spec.sparkConf`` and the names of the job's variables.
    :raises KafkaSparkJobError: as the job would fail.
    """
    if job.spec.source.stopping.predicate and len(checkpoints) > 1:
        msg = "source.stopping.predicate ends partitions over several checkpoints, which needs a broker"
        raise ConfigurationError(msg, remedy="give all records as one checkpoint")
    variables = {name: os.environ[name] for name in project.environment}
    session = spark.session(job, project.spark_conf, variables)
    function = import_function(job.spec.transform)  # its module may use the session while it is imported
    with tempfile.TemporaryDirectory(dir=spark.scratch) as folder:
        source = Path(folder) / "source"
        source.mkdir()
        stream = session.readStream.schema(SOURCE_DDL).parquet(str(source))
        failed = failed_records_of(job)

        def plan(decoding: Job) -> DataFrame:
            decoded = decode_records(stream, decoding, tell_nobody)
            return encode_records(apply_transform(decoded, job.spec, function, session, failed=failed), job.spec)

        result, reads_apart = planned(job, plan)
        collector = _Collector(job, session, reads_letters_apart=reads_apart)
        collector.run(result, checkpoints, Path(folder))
        return collector.output_with(
            spark.letters_of(session, attempt_key(job)), spark.letters_of(session, f"{attempt_key(job)}-transform")
        )


def run_without_failed(
    job: Job, checkpoints: Sequence[pa.RecordBatch], spark: LocalSpark, project: Project, *, error: TransformFailed
) -> Output:
    """Runs the job as ``onTransformError`` says, without the records for which its transform fails.

    :param error: of the run with all records.
    :raises KafkaSparkJobError: as the job would fail, see :meth:`FailedSearch.find`.
    """
    plain = replace(job, spec=replace(job.spec, record_errors=without_letters(job.spec.record_errors)))
    offsets: dict[TopicPartition, int] = {}
    for batch in checkpoints:
        for row in batch.select(["topic", "partition", "offset"]).to_pylist():
            offsets[TopicPartition(row["topic"], row["partition"])] = row["offset"] + 1
    splits = [KafkaPartitionSplit(partition, 0, stop) for partition, stop in sorted(offsets.items())]

    def run(parts: Sequence[KafkaPartitionSplit]) -> None:
        run_micro_batch(plain, [_within(batch, parts) for batch in checkpoints], spark, project)

    left_out = LeftOut(FailedSearch(run=run, cancel=lambda: None).find(error, splits))
    kept, letters = [], Output()
    for batch in checkpoints:
        rest, rows, failures = left_out.split(batch)
        kept.append(rest)
        if job.spec.record_errors.transform_policy is OnRecordError.SKIP:
            letters.skipped += len(failures)
        elif failures:
            letters.dead_letters += sink_records(
                file_rows(job, rows, failures), job.spec.record_errors.dead_letter_topic
            )
    output = run_micro_batch(job, kept, spark, project)
    output.skipped += letters.skipped
    output.dead_letters += letters.dead_letters
    return output


def _within(batch: pa.RecordBatch, parts: Sequence[KafkaPartitionSplit]) -> pa.RecordBatch:
    ranges = {split.partition: (split.start, split.stop) for split in parts}
    kept = []
    for row in batch.select(["topic", "partition", "offset"]).to_pylist():
        start, stop = ranges.get(TopicPartition(row["topic"], row["partition"]), (0, 0))
        kept.append(start <= row["offset"] < stop)
    return batch.filter(pa.array(kept, pa.bool_()))


def _write(batch: pa.RecordBatch, file: Path) -> None:
    unfinished = file.with_name(f".{file.name}")  # the source does not see it
    pq.write_table(pa.Table.from_batches([batch]), unfinished)
    unfinished.rename(file)


def _late_rows(query: StreamingQuery) -> int:
    """Rows that operators have dropped as later than the watermark, by the progress of each micro-batch.

    :param query: has nothing more to do. Spark then has the progress of its last micro-batch.
    """
    progress = [json.loads(str(each.json())) for each in query._jsq.recentProgress()]
    return sum(operator["numRowsDroppedByWatermark"] for each in progress for operator in each["stateOperators"])


class _Collector:
    """Runs the query, and takes the result of each micro-batch.

    :param reads_letters_apart: whether the records that do not parse are read from the files of the source.
    """

    def __init__(self, job: Job, session: SparkSession, *, reads_letters_apart: bool) -> None:
        self._job = job
        self._reads_letters_apart = reads_letters_apart
        self._session = session
        self._name = f"{job.namespace}.{job.name}"
        self._output = Output()
        self._refusal: KafkaSparkJobError | None = None
        self._is_judged = False

    def run(self, result: DataFrame, checkpoints: Sequence[pa.RecordBatch], folder: Path) -> None:
        """Gives the query each checkpoint when it has nothing more to do for the last.

        Spark then has moved the watermark, and has written the windows that are complete.

        :param folder: of the query, and of its source.
        """
        mode = self._job.spec.transform.output_mode.value
        writer = result.writeStream.outputMode(mode).foreachBatch(self._take).queryName(self._name)
        with refused_by_streaming():
            query = writer.option("checkpointLocation", (folder / "query").as_uri()).start()
        try:
            for number, batch in enumerate(checkpoints):
                file = folder / "source" / f"{number:06}.parquet"
                _write(batch, file)
                query.processAllAvailable()
                if self._reads_letters_apart:
                    self._read_letters(file)
            self._output.late = _late_rows(query)
        except StreamingQueryException as error:
            raise self._refusal or original_error(query.exception() or error) from error
        finally:
            query.stop()

    def _read_letters(self, file: Path) -> None:
        records = self._session.read.schema(SOURCE_DDL).parquet(str(file))
        for row in letters_of(records, self._job, StructType()).collect():
            for letters in letters_in(bytes(row[0])):
                self._output.dead_letters += sink_records(letters, self._job.spec.record_errors.dead_letter_topic)

    def output_with(self, diverted: Sequence[Path], failed: Sequence[Path]) -> Output:
        """What the query has written, with the records of these files, which are removed.

        :param diverted: records that do not parse, and ``failed`` those for which the function raises.
        """
        errors = self._job.spec.record_errors
        for file in (*diverted, *failed):
            with pa.OSFile(str(file), "rb") as content, pa.ipc.open_stream(content) as stream:
                letters = stream.read_all()
            if file in failed and errors.transform_policy is OnRecordError.SKIP:
                self._output.skipped += letters.num_rows
            else:
                self._output.dead_letters += sink_records(letters, errors.dead_letter_topic)
            file.unlink()
        return self._output

    def _take(self, frame: DataFrame, _: int) -> None:
        try:
            if (diverts(self._job.spec) or catches(self._job.spec)) and not is_aligned(
                frame, partition_count(frame), source=_SOURCE
            ):
                require_aligned(self._job.spec, read_apart=self._reads_letters_apart)
            table: Any = frame.toArrow()
            if encodes_result(self._job.spec):
                encoder = RecordEncoder(self._job.spec.sink)
                empty = pa.RecordBatch.from_pylist([], schema=table.schema)
                table = pa.Table.from_batches([encoder.encode(batch) for batch in table.to_batches() or [empty]])
            self._judge()
        except KafkaSparkJobError as error:
            self._refusal = error
            raise
        self._output += sink_records(table, self._job.spec.sink.topic)
        tallies = observed_tallies(self._job.spec, self._session, self._name)
        if not diverts(self._job.spec):
            self._output.skipped += sum(tally.bad for tally in tallies.values())

    def _judge(self) -> None:
        """Judges the plan of the first micro-batch; the others have the same operators.

        :raises ConfigurationError: as the engine, for state without a volume.
        """
        if self._is_judged:
            return
        self._is_judged = True
        nodes = list(stateful_nodes(self._session, self._name))
        if nodes and not self._job.spec.may_keep_state:
            raise ConfigurationError(_STATE, remedy=_STATE_REMEDY)
        self._output.warnings = growing_state(nodes)
