"""Runs a project over records, by the engine that the job would have, and finds the record that fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from kafkaspark.local.code import user_code
from kafkaspark.local.output import Output
from kafkaspark.local.project import Project
from kafkaspark.local.records import Record, record_at, source_batches
from kafkaspark.local.spark import LocalSpark
from kafkaspark.local.variables import variables_set
from sparkapp.formats.encoders.writer_schema import with_writer_schemas
from sparkapp.model.errors import KafkaSparkJobError, RecordFailed, SparkDied, TransformFailed
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spec import Engine, Job
from sparkapp.source.formats.reader_schema import with_reader_schemas

Checkpoints = Sequence[Sequence[Record]]
_SHOWN = 200
_POSITION = re.compile(r"topic (\S+), partition (\d+), offset (\d+)")
_attempts = count(1)


def run_project(project: Project, checkpoints: Checkpoints, spark: LocalSpark, *, fresh: bool = False) -> Output:
    """Runs a job over the records of its checkpoints, from its first on.

    Called by ``kafkaspark dev`` and by :mod:`kafkaspark.testing`.

    :param spark: for jobs of the micro-batch engine; started by the first of them.
    :param fresh: import the user's modules again.
    :raises KafkaSparkJobError: as the job would fail. An error of the user's code names the record, if it fails alone.
    """
    # Files of dead letters have the attempt's number.
    job = with_writer_schemas(with_reader_schemas(replace(project.job, attempt=next(_attempts))))
    run = partial(_run, job, spark, project)
    with variables_set(project.environment), user_code().importable(project.files, fresh=fresh):
        try:
            try:
                return run(checkpoints)
            except TransformFailed as error:
                from kafkaspark.local.micro_batch import run_without_failed
                from sparkapp.spark.frames.record_policy import searches

                if not searches(job.spec):
                    raise
                return run_without_failed(
                    job, source_batches(checkpoints, job.spec.source), spark, project, error=error
                )
        except TransformFailed as error:
            records = [record for each in checkpoints for record in each]
            found = _named(error, records, job) or failing_record(run, records)
            if found is None:
                raise
            text = f"{found.error.message}, over {_shown(found)}"
            raise RecordFailed(text, remedy=error.remedy, detail=found.error.detail) from error


def check_transform(project: Project, spark: LocalSpark) -> tuple[str, ...]:
    """Imports the job's code. In the micro-batch engine Spark plans it, too, as a stream of no records. In the
    continuous engine the columns of a query are checked against ``sink.format``.

    Called by ``kafkaspark validate``. A factory of an Arrow function is not called: it may open connections.

    :returns: warnings, see :attr:`kafkaspark.local.output.Output.warnings`.
    :raises KafkaSparkJobError: as the job would fail.
    """
    if chosen_engine(project.job.spec)[0] is Engine.MICRO_BATCH:
        return run_project(project, [[]], spark).warnings
    if project.job.spec.transform.arrow.name:
        from sparkapp.spark.frames.batch_transform import import_arrow

        with variables_set(project.environment), user_code().importable(project.files, fresh=False):
            import_arrow(project.job.spec.transform.arrow)
    else:
        from sparkapp.spark.frames.batch_transform import check_result

        check_result(with_writer_schemas(project.job).spec)
    return ()


def _run(job: Job, spark: LocalSpark, project: Project, checkpoints: Checkpoints) -> Output:
    batches = source_batches(checkpoints, job.spec.source)
    if chosen_engine(job.spec)[0] is Engine.CONTINUOUS:
        from kafkaspark.local.continuous import run_continuous

        return run_continuous(job, batches)
    from kafkaspark.local.micro_batch import run_micro_batch
    from sparkapp.spark.failures import lost_jvm

    try:
        return run_micro_batch(job, batches, spark, project)
    except Exception as error:
        if lost_jvm(error):
            msg = "the JVM of Spark has ended"
            raise SparkDied(msg) from error
        raise


@dataclass(frozen=True, slots=True)
class FailingRecord:
    """A record over which the user's code fails, also without the others.

    :param number: of the record, from 1.
    """

    record: Record
    number: int
    error: TransformFailed


def _named(error: TransformFailed, records: Sequence[Record], job: Job) -> FailingRecord | None:
    """The record that the error of an Arrow function names by its position."""
    position = _POSITION.match(error.message) if isinstance(error, RecordFailed) else None
    if position is None:
        return None
    topic, partition, offset = position.group(1), int(position.group(2)), int(position.group(3))
    record = record_at(records, job.spec.source, topic=topic, partition=partition, offset=offset)
    return None if record is None else FailingRecord(record, _number(record, records), error)


def _number(record: Record, records: Sequence[Record]) -> int:
    return next(number for number, each in enumerate(records, 1) if each is record)


def failing_record(run: Callable[[Checkpoints], object], records: Sequence[Record]) -> FailingRecord | None:
    """Halves the records until a single record is left; None if the code fails over none alone.

    :param run: runs the job over some of the records.
    """
    first = 0
    error: TransformFailed | None = None
    while len(records) > 1:
        middle = len(records) // 2
        error = _failure(run, records[:middle])
        if error is not None:
            records = records[:middle]
        else:
            first, records = first + middle, records[middle:]
    error = error or (_failure(run, records) if records else None)
    return FailingRecord(records[0], first + 1, error) if error is not None and len(records) == 1 else None


def _failure(run: Callable[[Checkpoints], object], records: Sequence[Record]) -> TransformFailed | None:
    try:
        run([records])
    except TransformFailed as error:
        return error
    except KafkaSparkJobError:  # another error than that of the whole
        return None
    return None


def _shown(found: FailingRecord) -> str:
    value = found.record.value
    text = "null" if value is None else value.decode("utf-8", "backslashreplace")
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{found.record.where or f'record {found.number}'}: {shown}"
