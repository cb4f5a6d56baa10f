"""``spec.transform`` over Arrow batches: the user's function, the same in both engines, or a narrow query."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from sparkapp.dataplane.interface import ALL_COLUMNS, SOURCE_SCHEMA
from sparkapp.dataplane.output_batch import OutputBatch
from sparkapp.formats.encoders.record_encoder import RecordEncoder, routing_columns
from sparkapp.formats.record_query import RecordQuery
from sparkapp.model.encoding.json_columns import columns_of
from sparkapp.model.errors import TransformError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.narrow_sql.plan import NarrowQuery
from sparkapp.model.job.rules.narrow_sql.query import narrow_query
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import ArrowTransform
from sparkapp.model.job.spec import JobSpec
from sparkapp.source.formats.json_text.decoder import arrow_type
from sparkapp.spark.frames.failed.failed_records import FailedRecords
from sparkapp.spark.frames.failed.failing_record import named_failure
from sparkapp.spark.frames.user_code import imported

LOG = logging.getLogger(__name__)

SINK_COLUMNS = ("key", "value", "headers", "timestamp")
"""Columns of a result that the sink writes. ``value`` is required; other columns are not written.

``topic`` and ``partition`` are used only if the sink's options ask for them: on records that pass through they are the
source's.
"""

RESULT_SCHEMA = pa.schema([field for field in SOURCE_SCHEMA if field.name not in {"offset", "timestampType"}])
"""Of :func:`map_in_arrow`: every column that a sink can write or route by."""

_WITH_CONTEXT = 2
"""Required parameters of a function that gets the context, too."""

_REMEDY = "return pyarrow record batches with a column value; batch.set_column replaces a column of the input"


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The second argument of a function that takes two.

    :param watermark: the subtask's before the batch, in UTC. None before the first, and without ``source.watermarks``.
    """

    watermark: datetime | None


def no_watermark() -> None:
    """For a job without ``source.watermarks``."""
    return


class BatchTransform:
    """Maps batches of source records to batches with the sink's columns, by ``transform.arrow``, a query or unchanged.

    Made for a task, and used by its thread. The continuous engine keeps it until the subtask ends.

    :param failed: takes the records for which the function raises; None where they fail the task.
    :param query: of ``transform.sql``, in the continuous engine.
    :ivar source_columns: that the records need; the others may be null.
    """

    def __init__(
        self,
        arrow: ArrowTransform,
        sink: Sink,
        failed: FailedRecords | None = None,
        *,
        query: NarrowQuery | None = None,
    ) -> None:
        self._arrow = arrow
        self._failed = failed
        self._query = None if query is None else RecordQuery(query)
        self._encoder = None if sink.format is None else RecordEncoder(sink)
        self._required = (*(("value",) * (sink.format is None)), *routing_columns(sink))
        self._columns = (*SINK_COLUMNS, *routing_columns(sink))
        given = () if sink.format is None else sink.format.key_columns
        used = frozenset((*self._columns, *given)) if query is None else query.columns
        self.source_columns = ALL_COLUMNS if arrow.name else used & ALL_COLUMNS
        self._function: Callable[..., Any] | None = None
        self._wants_context = False

    def open(self) -> None:
        """Imports the function, or calls its factory; nothing if that is done.

        :raises TransformError: the import fails, or the factory returns no function.
        :raises Exception: of the factory.
        """
        if self._query is not None:
            self._function = self._query
        if self._function is not None or not self._arrow.name:
            return
        found = import_arrow(self._arrow)
        function = found() if self._arrow.factory else found
        if not callable(function):
            msg = f"the factory {self._arrow.name} returned {type(function).__name__}, which cannot be called"
            raise TransformError(msg, remedy="return a function of a pyarrow.RecordBatch from the factory")
        self._function, self._wants_context = function, _wants_context(function)

    def map(
        self, batches: Iterable[pa.RecordBatch], *, watermark: Callable[[], datetime | None] = no_watermark
    ) -> Iterator[pa.RecordBatch]:
        """The result of each batch, with no other columns than the sink's.

        :param watermark: gives the subtask's watermark, asked before each batch.
        :raises TransformError: the function returns something else than batches, or a batch lacks a column.
        :raises TransformFailed: and Exception: of the function, see :func:`named_failure`.
        """
        self.open()
        with nullcontext() if self._failed is None else self._failed.collecting():
            for batch in batches:
                if self._function is None:
                    yield self._selected(batch)
                    continue
                function = partial(self._mapped, (BatchContext(watermark()),) if self._wants_context else ())
                if self._failed is not None:
                    yield from self._failed.map(batch, function)
                    continue
                try:
                    yield from function(batch)
                except Exception as error:
                    named = named_failure(error, batch, function)
                    if named is error:
                        raise
                    raise named from error

    def close(self) -> None:
        """Calls ``close`` of what the factory returned; a later batch calls the factory again.

        Its exceptions are logged only: the records are written, or the task has failed before.
        """
        function, self._function = self._function, None
        close = getattr(function, "close", None) if self._arrow.factory else None
        if close is None:
            return
        try:
            close()
        except Exception:
            LOG.exception("close of what %s returned failed", self._arrow.name)

    def _mapped(self, context: tuple[BatchContext, ...], batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        assert self._function is not None, "an open function"
        for result in self._results(self._function(batch, *context)):
            yield self._selected(result)

    def _results(self, result: Any) -> Iterator[pa.RecordBatch]:
        if result is None:
            return
        if isinstance(result, pa.RecordBatch):
            yield result
            return
        for batch in result if isinstance(result, Iterable) else [result]:
            if not isinstance(batch, pa.RecordBatch):
                inside = "" if batch is result else f"{type(result).__name__} with "
                msg = (
                    f"the function of {self._arrow.name} returned {inside}{type(batch).__name__}: it may return a"
                    " RecordBatch, several of them, or None"
                )
                raise TransformError(msg, remedy=_REMEDY)
            yield batch

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name in self._required:
            if batch.schema.get_field_index(name) < 0:  # also if there are two
                msg = (
                    f"a batch of {self._arrow.name} has not exactly one column {name!r}: it has"
                    f" {', '.join(batch.schema.names) or 'nothing'}"
                )
                raise TransformError(msg, remedy=_REMEDY)
        if self._encoder is not None:
            return self._encoder.encode(batch)
        return batch.select([name for name in self._columns if name in batch.schema.names])


def _wants_context(function: Callable[..., Any]) -> bool:
    """Whether the function has a second parameter that it cannot be called without.

    So a second parameter with a default keeps its default.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function of C that does not say
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [each for each in parameters if each.kind in positional and each.default is inspect.Parameter.empty]
    return len(required) == _WITH_CONTEXT


def import_arrow(arrow: ArrowTransform) -> Callable[..., Any]:
    """The function or factory that the spec names.

    :raises TransformError: see :func:`sparkapp.spark.frames.user_code.imported`.
    """
    return imported(arrow.name, field=f"spec.transform.arrow.{'function' if arrow.function else 'factory'}")


def transform_of(spec: JobSpec, failed: FailedRecords | None = None) -> BatchTransform:
    """The transform of a subtask; called by the continuous engine's task."""
    query = narrow_query(spec) if spec.transform.sql else None
    return BatchTransform(spec.transform.arrow, spec.sink, failed, query=query)


def check_result(spec: JobSpec) -> None:
    """Refuses columns that do not fit ``sink.format`` before the first record, as the plan of a micro-batch does.

    The columns of a function over Arrow batches are known by its results alone. Called for jobs of the continuous
    engine, by the driver and by ``kafkaspark validate``.

    :param spec: with the writer schemas of the sink.
    :raises TransformError: a column is missing, or has a type that the format cannot have.
    :raises SchemaMismatch: a column does not fit the writer schema.
    :raises ExtensionMissing: the C extension is not built.
    """
    if spec.sink.format is None or spec.transform.arrow.name:
        return
    kinds = {field.name: field.type for field in SOURCE_SCHEMA} | dict(_decoded_types(spec.source))
    records = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in kinds.values()], names=list(kinds))
    result: pa.RecordBatch | None = records
    if spec.transform.sql:
        result = RecordQuery(replace(narrow_query(spec), condition=None))(records)
    assert result is not None, "a query without a condition has a result"
    RecordEncoder(spec.sink).check(result.schema)


def _decoded_types(source: Source) -> Iterator[tuple[str, pa.DataType]]:
    """The Arrow types of sides that a subtask decodes, of the formats that a narrow query can have."""
    for side, kind, schema in source.sides:
        if kind is Format.STRING:
            yield side, pa.string()
        elif kind is Format.JSON:
            yield side, arrow_type(columns_of(schema))


def map_in_arrow(
    arrow: ArrowTransform, sink: Sink, batches: Iterator[pa.RecordBatch], *, failed: FailedRecords | None = None
) -> Iterator[pa.RecordBatch]:
    """A Python stage of the micro-batch (``DataFrame.mapInArrow``); its columns are those of the source's schema.

    Spark wants the columns' types before it sees a batch. So a column that a result lacks is null, as where the sink's
    default applies.

    :raises TransformError: see :meth:`BatchTransform.map`; or a column has an unsupported type.
    """
    with closing(BatchTransform(arrow, sink, failed)) as transform:
        for batch in transform.map(batches):
            output = OutputBatch.of(batch)
            yield pa.RecordBatch.from_arrays([_column(output, field) for field in RESULT_SCHEMA], schema=RESULT_SCHEMA)


def _column(output: OutputBatch, field: pa.Field[Any]) -> pa.Array[Any]:
    column: pa.Array[Any] | None = getattr(output, field.name)
    return pa.nulls(output.rows, field.type) if column is None else column.cast(field.type)
