"""``spec.onRecordError`` over a frame whose decoders have marked what they could not read.

For each side (``key`` or ``value``) a decoder adds the decoded column and the column :func:`error_column`, with null or
an error text. Fail raises where the transform uses the side. Skip is a filter and a count inside the JVM, and keeps
column pruning. DeadLetter takes all columns through a Python stage, which diverts the rows that do not parse. A task
writes the letters of the records that it reads. Where it writes other records, letters are read apart
(:mod:`sparkapp.spark.frames.failed.letters_apart`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.encoding.error_object import MARK, MAX_MESSAGE
from sparkapp.model.errors import ConfigurationError, RecordError
from sparkapp.model.job.client.record_limits import letter_limit
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.sink.dead_letter import ERROR, RAW_KEY, RAW_VALUE, STAGE, dead_letters
from sparkapp.source.record_tally import Example, Tally
from sparkapp.spark.frames.dead_letter_file import DeadLetterFile
from sparkapp.spark.frames.query_plan import observed


class LetterWriter(Protocol):
    """Part of :class:`sparkapp.sink.writer.KafkaWriter`."""

    def write_dead_letters(self, batch: pa.RecordBatch, *, topic: str, limit: int) -> None: ...


OBSERVATION = "kafkaspark"
"""Of the records, by whether they parse."""
_PARSED, _BAD, _EXAMPLE, _PLACES = "parsed", "bad", "example", "places"
_MAX_TOPICS = 16
"""Topics whose records Spark counts apart; the records of more topics are counted together."""


def error_column(side: str) -> str:
    """The column with the error of a side in a row; null without an error."""
    return f"_error_{side}"


def fallible_sides(spec: JobSpec) -> tuple[str, ...]:
    """The sides whose format can refuse a record; bytes and text take anything."""
    chosen = {"value": spec.source.value_format, "key": spec.source.key_format}
    return tuple(side for side, format_ in chosen.items() if format_.traits.fallible)


def diverts(spec: JobSpec) -> bool:
    """Whether records that do not parse are written as dead letters."""
    return spec.record_errors.policy is OnRecordError.DEAD_LETTER and bool(fallible_sides(spec))


def catches(spec: JobSpec) -> bool:
    """Whether a record for which the user's function raises is left out, by ``onTransformError``."""
    return spec.record_errors.transform_policy is not OnRecordError.FAIL


def searches(spec: JobSpec) -> bool:
    """Whether the driver finds such records, because the transform is a plan of Spark and no function over batches."""
    return catches(spec) and not spec.transform.arrow.name


def skipping(job: Job) -> Job:
    """The job whose stream leaves out what does not parse, because its letters are read apart."""
    errors = replace(job.spec.record_errors, policy=OnRecordError.SKIP)
    return replace(job, spec=replace(job.spec, record_errors=errors))


def without_letters(errors: RecordErrors) -> RecordErrors:
    """For a search for records: it leaves out what does not parse as the job does, and no write stage takes letters."""
    return RecordErrors(policy=OnRecordError.FAIL if errors.policy is OnRecordError.FAIL else OnRecordError.SKIP)


def judges_records(spec: JobSpec) -> bool:
    """Whether records are dropped for any reason, so that it matters how many of them there are."""
    return counts_records(spec) or catches(spec)


def kept_columns(spec: JobSpec) -> list[str]:
    """The columns behind the decoders: the source's, and the raw sides if a record may be a letter of the transform."""
    is_decoded = any(chosen is not Format.RAW for chosen in (spec.source.key_format, spec.source.value_format))
    keeps = is_decoded and not searches(spec) and spec.record_errors.transform_policy is OnRecordError.DEAD_LETTER
    return [*SOURCE_SCHEMA.names, *((RAW_KEY, RAW_VALUE) if keeps else ())]


def needs_decoded_text(spec: JobSpec) -> bool:
    """Whether a side that parses may be in a dead letter: in a letter of the transform, or of the other side."""
    return RAW_KEY in kept_columns(spec) or (diverts(spec) and len(fallible_sides(spec)) > 1)


def counts_records(spec: JobSpec) -> bool:
    """Whether records that do not parse are dropped, so that it matters how many of them there are."""
    return spec.record_errors.policy is not OnRecordError.FAIL and bool(fallible_sides(spec))


def framed_side(spec: JobSpec) -> str:
    """The side with the schemas of a registry, by which records are counted; empty if there is none."""
    chosen = {"value": spec.source.value_format, "key": spec.source.key_format}
    return next((side for side, format_ in chosen.items() if format_.traits.registered), "")


def attempt_key(job: Job) -> str:
    """A name for the attempt's files in an executor's scratch directory."""
    return f"{job.uid}-{job.attempt}"


def with_raw_columns(records: DataFrame) -> DataFrame:
    """The source's columns, and copies of key and value for :func:`apply_policy`; a copy costs nothing if unused."""
    return records.withColumns({RAW_KEY: f.col("key"), RAW_VALUE: f.col("value")})


def apply_policy(decoded: DataFrame, job: Job) -> DataFrame:
    """The source's columns, decoded, without the records that did not parse.

    :param decoded: a frame of :func:`with_raw_columns` after its decoders.
    """
    names, sides = kept_columns(job.spec), fallible_sides(job.spec)
    if not sides:
        return decoded.select(*names)
    policy = job.spec.record_errors.policy
    if policy is OnRecordError.FAIL:
        # Filters are not pushed below an observation: without it Spark parses a record again for each condition on it.
        decoded = decoded.observe(OBSERVATION, f.count(f.lit(1)).alias("records"))
        return decoded.withColumns({side: _or_raised(side) for side in sides}).select(*names)
    decoded = counted_errors(decoded, job.spec)
    if policy is OnRecordError.SKIP:
        return decoded.filter(error_of(job.spec).isNull()).select(*names)
    schema = StructType([decoded.schema[name] for name in names])
    task: Any = partial(divert, f"{job.namespace}.{job.name}", attempt_key(job), kept=names)
    return with_stages(decoded, job.spec).mapInArrow(task, schema)


def error_of(spec: JobSpec) -> Column:
    """The first error of a row, over both sides; null without an error."""
    errors = [f.col(error_column(side)) for side in fallible_sides(spec)]
    return f.coalesce(*errors) if len(errors) > 1 else errors[0]


def counted_errors(decoded: DataFrame, spec: JobSpec) -> DataFrame:
    """The frame, whose rows are counted by :func:`judgement`."""
    return decoded.observe(OBSERVATION, *_counts(error_of(spec), _counted_topics(spec)))


def with_stages(decoded: DataFrame, spec: JobSpec) -> DataFrame:
    """The columns of :func:`sparkapp.sink.dead_letter.dead_letters`, where key and value are decoded, too."""
    sides = fallible_sides(spec)
    stage = f.coalesce(*(f.when(f.col(error_column(side)).isNotNull(), f.lit(side)) for side in sides))
    raw = (RAW_KEY, RAW_VALUE)
    return decoded.select(*SOURCE_SCHEMA.names, *raw, stage.alias(STAGE), error_of(spec).alias(ERROR))


def divert(
    job: str, attempt_key: str, batches: Iterator[pa.RecordBatch], *, kept: Sequence[str] = SOURCE_SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """Passes good rows and writes the others as dead letters; runs in an executor's worker (``mapInArrow``).

    :param job: namespace and name, for the letters' headers.
    :param attempt_key: names the attempt (:func:`attempt_key`).
    :param kept: columns of the good rows (:func:`kept_columns`).
    """
    names = list(kept)
    with dead_letters_of_task(attempt_key).writing() as letters:
        for batch in batches:
            error = batch.column(ERROR)
            if error.null_count == batch.num_rows:
                yield batch.select(names)
                continue
            letters.write_batch(dead_letters(batch.filter(pc.is_valid(error)), job=job))
            yield batch.filter(pc.is_null(error)).select(names)


def dead_letters_of_task(attempt_key: str) -> DeadLetterFile:
    """The file of dead letters of the Spark task that this worker runs; outside Spark, of the process's only task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return DeadLetterFile(attempt_key=attempt_key, stage=0, partition=0, task_attempt=os.getpid())
    return DeadLetterFile(
        attempt_key=attempt_key, stage=context.stageId(), partition=context.partitionId(),
        task_attempt=context.taskAttemptId(),
    )  # fmt: skip


def failed_records_of_task(job: Job) -> DeadLetterFile:
    """The file of the records for which the user's function has raised in the Spark task that this worker runs."""
    return dead_letters_of_task(f"{attempt_key(job)}-transform")


def write_letters(job: Job, writer: LetterWriter, letters: pa.RecordBatch) -> None:
    """Writes dead letters in the transaction of the writer's checkpoint."""
    writer.write_dead_letters(letters, topic=job.spec.record_errors.dead_letter_topic, limit=letter_limit(job))


def write_failed(job: Job, writer: LetterWriter, *, read_apart: bool = False) -> int:
    """Writes the dead letters of the task that this worker runs, behind its records; called in both engines.

    :param read_apart: whether letters of records that do not parse are among the task's rows.
    :returns: how many records ``onTransformError: Skip`` has left out.
    :raises TransformError: see :meth:`DeadLetterFile.take`.
    """
    is_diverted = diverts(job.spec) and not read_apart
    diverted = dead_letters_of_task(attempt_key(job)).take() if is_diverted else iter(())
    failed = failed_records_of_task(job).take() if catches(job.spec) else iter(())
    skipped = 0
    if job.spec.record_errors.transform_policy is OnRecordError.SKIP:
        skipped, failed = sum(letters.num_rows for letters in failed), iter(())
    for letters in chain(diverted, failed):
        write_letters(job, writer, letters)
    return skipped


def require_aligned(spec: JobSpec, *, read_apart: bool) -> None:
    """Called by the write stage for a batch whose tasks do not write what they read, before it is written.

    :param read_apart: whether the letters of records that do not parse come from a read of their own. Else the plan of
        the transform had no operator that moves records.
    :raises ConfigurationError: a policy needs the failed records of a task, and no write task has those of what it
        writes.
    """
    is_diverted = diverts(spec) and not read_apart
    if not (is_diverted or catches(spec)):
        return
    field, instead = (
        ("onTransformError", "onTransformError: Fail") if catches(spec)
        else ("onRecordError: DeadLetter", "onRecordError: Skip")
    )  # fmt: skip
    msg = f"spec.{field} does not work with this transform: it has an aggregation, a join, a sort or a repartition"
    raise ConfigurationError(
        msg, remedy=f"set spec.{instead}, or move the operation to a second job that reads the sink topic"
    )


def observed_tallies(spec: JobSpec, spark: SparkSession, query_name: str) -> dict[str, Tally]:
    """Records of the batch under way by topic; the checkpoint runner asks when its tasks are done.

    The name of a topic is empty where its topics are counted together.
    """
    if not counts_records(spec):
        return {}
    counts = observed(spark, query_name, OBSERVATION)
    if counts is None:
        return {}
    found = {}
    for index, topic in enumerate(_counted_topics(spec)):
        example = counts.get(f"{_EXAMPLE}{index}")
        found[topic] = Tally(
            int(counts[f"{_PARSED}{index}"]), int(counts[f"{_BAD}{index}"]),
            None if example is None else Example(**example),
        )  # fmt: skip
    return found


def _counted_topics(spec: JobSpec) -> tuple[str, ...]:
    topics = spec.source.topics
    return topics if 0 < len(topics) <= _MAX_TOPICS else ("",)


def _counts(error: Column, topics: Sequence[str]) -> Iterator[Column]:
    place = f.struct("topic", "partition", "offset", error.alias("error"))
    for index, topic in enumerate(topics):
        belongs = f.lit(True) if len(topics) == 1 else f.col("topic") == topic
        yield f.count(f.when(belongs & error.isNull(), 1)).alias(f"{_PARSED}{index}")
        yield f.count(f.when(belongs, error)).alias(f"{_BAD}{index}")
        yield f.min(f.when(belongs & error.isNotNull(), place)).alias(f"{_EXAMPLE}{index}")
    places = f.when(error.isNotNull(), f.hash("topic", "partition", "offset").cast("bigint"))
    yield f.sum(places).alias(_PLACES)


class Judgement(NamedTuple):
    """Of all rows that a frame of :func:`counted_errors` has read: how many, how many of them do not parse, and which.

    :param places: a sum over the positions of those that do not parse.
    """

    rows: int
    bad: int
    places: int

    def without(self, earlier: Judgement) -> Judgement:
        """Since the earlier of two of a frame."""
        return Judgement(*(mine - theirs for mine, theirs in zip(self, earlier, strict=True)))


def judgement(counts: Mapping[str, Any]) -> Judgement:
    """
    :param counts: what the frame has observed.
    """
    numbers = {name: int(value) for name, value in counts.items() if isinstance(value, int)}
    bad = sum(number for name, number in numbers.items() if name.startswith(_BAD))
    parsed = sum(number for name, number in numbers.items() if name.startswith(_PARSED))
    return Judgement(bad + parsed, bad, numbers.get(_PLACES, 0))


def _or_raised(side: str) -> Column:
    # A text: each function of PySpark takes a dozen calls of the JVM.
    error = error_column(side)
    message = (
        "concat('topic ', `topic`, ', partition ', CAST(`partition` AS STRING), ', offset ', CAST(`offset` AS STRING),"
        f" ': ', substring({error}, 1, {MAX_MESSAGE // 2}))"
    )
    # What sparkapp.model.encoding.error_object encodes, by the JVM.
    raised = f"concat('{MARK}', to_json(named_struct('kind', '{RecordError.__name__}', 'message', {message})))"
    return f.expr(f"CASE WHEN {error} IS NULL THEN `{side}` ELSE raise_error({raised}) END")
