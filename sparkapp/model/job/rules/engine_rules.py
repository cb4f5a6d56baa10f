"""The choice of the engine, and the fields that an engine or a pace of commits refuses."""

from __future__ import annotations

from collections.abc import Iterator

from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.encoding.json_columns import Kind, columns_of
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.narrow_sql.query import narrow_query
from sparkapp.model.job.sections.source import DEFAULT_MAX_OFFSETS, Source
from sparkapp.model.job.spec import Engine, JobSpec

MIN_CONTINUOUS_POOL = 3


def check_engine(spec: JobSpec) -> None:
    """:raises ConfigurationError: the engine, or the pace of its commits, cannot run the job."""
    for field, change in _not_continuous(spec).items():
        require(
            spec.engine is not Engine.CONTINUOUS,
            "spec.engine",
            f"Continuous cannot run a job with {field}",
            f"set engine: MicroBatch, or {change}",
        )
    engine, reason = chosen_engine(spec)
    require(
        spec.source.max_out_of_orderness_seconds is None or engine is Engine.CONTINUOUS,
        "spec.source.watermarks",
        f"needs the continuous engine, because Spark has one watermark for a query. MicroBatch: {reason}",
        _or_continuous(spec, "remove source.watermarks and declare withWatermark in the transform"),
    )
    _check_local_pace(spec, engine, reason)


def _or_continuous(spec: JobSpec, change: str) -> str:
    """The remedy of a job in MicroBatch: the change, or what makes it a job for Continuous."""
    changes = list(_not_continuous(spec).values())
    if spec.engine is Engine.MICRO_BATCH:
        changes.insert(0, "set engine: Continuous")
    return f"{change}, or {' and '.join(changes)}"


def _check_local_pace(spec: JobSpec, engine: Engine, reason: str) -> None:
    """What subtasks cannot have that commit by themselves (ADR 56): a plan of the driver, or another guarantee."""
    if not spec.has_local_pace:
        return
    where, source = "spec.checkpoint.commitIntervalMillis", spec.source
    require(
        engine is Engine.CONTINUOUS,
        where,
        f"needs the continuous engine. MicroBatch: {reason}",
        _or_continuous(spec, "remove checkpoint.commitIntervalMillis"),
    )
    require(
        spec.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE,
        where,
        f"is for transactions, which sink.deliveryGuarantee {spec.sink.delivery_guarantee} does not have",
        "remove checkpoint.commitIntervalMillis, or set sink.deliveryGuarantee: ExactlyOnce",
    )
    require(
        source.offset_commit is OffsetCommit.IN_TRANSACTION,
        where,
        f"needs the offsets in the transactions, and source.offsetCommit is {source.offset_commit}",
        "set source.offsetCommit: InTransaction",
    )
    require(
        spec.sink.transaction_timeout_millis > spec.commit_interval_millis,
        "spec.sink.transactions.timeoutSeconds",
        "must exceed checkpoint.commitIntervalMillis, or the brokers abort transactions before their commits",
        f"set sink.transactions.timeoutSeconds to more than {spec.commit_interval_millis / 1000:g}",
    )
    capped = ("limits.maxOffsetsPerCheckpoint",) * (source.max_offsets_per_checkpoint != DEFAULT_MAX_OFFSETS)
    for field in (*capped, *planned_by(source)):
        require(
            False,
            where,
            f"cannot be used with source.{field}, which needs checkpoints that the driver plans",
            f"remove source.{field}, or checkpoint.commitIntervalMillis",
        )


def planned_by(source: Source) -> tuple[str, ...]:
    """The job's fields by which the driver plans each checkpoint's ranges, without the cap that every job has."""
    used = {
        "limits.maxRatePerPartition": source.max_rate_per_partition > 0,
        "limits.maxRecordsPerSplit": source.max_records_per_split > 0,
        "watermarkAlignment": source.max_drift_seconds > 0,
        "watermarks": source.max_out_of_orderness_seconds is not None,
    }
    return tuple(filter(used.__getitem__, used))


def chosen_engine(spec: JobSpec) -> tuple[Engine, str]:
    """The engine that runs a job, and why; called by the driver, whose release has the engines.

    :returns: never Auto.
    """
    if spec.engine is not Engine.AUTO:
        return spec.engine, "set by spec.engine"
    fields = _not_continuous(spec)
    if fields:
        return Engine.MICRO_BATCH, f"spec.engine is Auto, and Continuous cannot run a job with {', '.join(fields)}"
    return Engine.CONTINUOUS, "spec.engine is Auto, and Continuous can run the job"


def _not_continuous(spec: JobSpec) -> dict[str, str]:
    """What the job uses and the continuous engine does not have, and for each what to change instead of the engine."""
    source, transform, sink = spec.source, spec.transform, spec.sink
    formats = {source.key_format, source.value_format}
    is_exact = sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    columns = {
        f"source.format.{side}Schema {cause}": f"write source.format.{side}Schema as columns of {', '.join(Kind)}"
        for side, cause in _other_columns(source)
    }
    # A query over a schema that only Spark reads is not looked at.
    sql = f"transform.sql {cause}" if not columns and (cause := _wide_sql(spec)) else ""
    no_transform = "source.format json, avro or protobuf and no transform.arrow or transform.sql"
    used = {
        "transform.python": bool(transform.function),
        sql: bool(sql),
        no_transform: not (transform.arrow.name or transform.sql) and any(chosen.traits.fallible for chosen in formats),
        "source.stopping.predicate": bool(source.stopping.predicate),
        "source.groupMembership": source.group_membership.subscribes,
        # The document names one checkpoint, another becomes final, and the subtasks write a third.
        "sink.transactions.producersPoolSize: 2": is_exact and sink.producers_pool_size < MIN_CONTINUOUS_POOL,
    }
    changes = {
        sql: "write transform.sql as columns, comparisons and to_json(struct(…)) of each record, or remove it",
        no_transform: "remove source.format, or add a transform",
        "sink.transactions.producersPoolSize: 2": (
            f"set sink.transactions.producersPoolSize to at least {MIN_CONTINUOUS_POOL}"
        ),
    }
    return {field: changes.get(field, f"remove {field}") for field, is_used in used.items() if is_used} | columns


def _wide_sql(spec: JobSpec) -> str:
    """What the query has that takes a plan of Spark; empty without a query, and where a subtask can run it."""
    if not spec.transform.sql:
        return ""
    try:
        narrow_query(spec)
    except InvalidArgument as error:
        return error.message
    return ""


def _other_columns(source: Source) -> Iterator[tuple[str, str]]:
    """The sides in JSON whose schemas only Spark's parser reads, and the types that only it has."""
    for side, chosen, schema in source.sides:
        if chosen is Format.JSON:
            try:
                columns_of(schema)
            except InvalidArgument as error:
                yield side, error.message
