"""``source.format`` and ``onRecordError`` in a subtask of the continuous engine, without a plan of Spark."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkapp.dataplane.interface import ALL_COLUMNS, SOURCE_SCHEMA
from sparkapp.dataplane.statistics import TOTALS
from sparkapp.model.errors import RecordError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.narrow_sql.query import narrow_query
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.spec import Job
from sparkapp.sink.dead_letter import ERROR, RAW_KEY, RAW_VALUE, STAGE
from sparkapp.source import record_tally
from sparkapp.source.formats.json_text.decoder import JsonDecoder
from sparkapp.spark.frames.formats.registry_format import decoded_side
from sparkapp.spark.frames.record_policy import (
    attempt_key,
    counts_records,
    divert,
    diverts,
    fallible_sides,
    framed_side,
    kept_columns,
)

_ANY_BYTES = pc.CastOptions(pa.string(), allow_invalid_utf8=True)
_cast: Any = pc.cast


class RecordDecoder:
    """Gives the job's transform key and value in their formats; made for a subtask, used by its thread.

    Records that pass through to a sink without a format are not decoded: the rules of the job leave them only formats
    that nothing changes.
    Under Fail a side that a query does not use is not decoded either, as in micro-batches.

    :ivar skipped: records that ``onRecordError: Skip`` has left out, of all checkpoints and tries.
    :ivar source_columns: that decoding needs in addition to those of the transform.
    """

    def __init__(self, job: Job) -> None:
        transform = job.spec.transform
        passes_unread = transform.passes_through and job.spec.sink.format is None
        self._job = job
        self._counts = counts_records(job.spec)
        reads_all = transform.arrow.name or transform.passes_through or self._counts
        read = {side for side, *_ in job.spec.source.sides} if reads_all else set()
        if transform.sql:
            read |= narrow_query(job.spec).columns
        self._sides = [
            part for part in job.spec.source.sides
            if part[0] in read and part[1] is not Format.RAW and not passes_unread
        ]  # fmt: skip
        self._json = {side: JsonDecoder(schema, side) for side, kind, schema in self._sides if kind is Format.JSON}
        self._fallible = tuple(side for side in fallible_sides(job.spec) if side in read)
        judged = {*self._fallible, "topic", "partition", "offset"} if self._fallible else set()
        self.source_columns = ALL_COLUMNS if diverts(job.spec) else frozenset(judged)
        self._kept = kept_columns(job.spec)
        self._framed = framed_side(job.spec)
        self.skipped = 0

    def decode(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        """The records of the batches that parse, in the columns of the source.

        :param batches: of the source, with all columns.
        :raises RecordError: a record does not parse, and the policy is Fail.
        :raises SchemaRegistryUnreachable: a writer's schema could not be requested.
        """
        decoded = (self._decoded(batch) for batch in batches) if self._sides else iter(batches)
        if not (self._sides and self._fallible):
            yield from decoded
        elif diverts(self._job.spec):
            yield from divert(
                f"{self._job.namespace}.{self._job.name}", attempt_key(self._job), decoded, kept=self._kept
            )
        else:
            yield from map(self._good, decoded)

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with decoded sides; with raw sides, error and its side if a format can refuse a record."""
        columns: dict[str, Any] = {name: batch.column(name) for name in SOURCE_SCHEMA.names}
        is_raw_kept = self._fallible or RAW_KEY in self._kept
        columns |= {RAW_KEY: columns["key"], RAW_VALUE: columns["value"]} if is_raw_kept else {}
        errors: dict[str, Any] = {}
        for side, kind, schema in self._sides:
            if kind is Format.STRING:
                columns[side] = _cast(columns[side], options=_ANY_BYTES)
                continue
            if side in self._json:
                columns[side], errors[side] = self._json[side].decode(columns[side])
                continue
            registry = self._job.spec.source.schema_registry
            assert registry is not None, "a rule of the job"
            found = decoded_side(columns[side], side, kind=kind, registry=registry, schema=schema)
            columns[side], errors[side] = found.flatten()
        if self._fallible:
            failed = [errors[side] for side in self._fallible]
            names = [
                pc.if_else(pc.is_valid(errors[side]), side, pa.scalar(None, pa.string())) for side in self._fallible
            ]
            columns |= {STAGE: pc.coalesce(*names), ERROR: pc.coalesce(*failed)}
        if self._counts:
            framed = batch.column(self._framed) if self._framed else None
            record_tally.note(batch, columns[ERROR], TOTALS.add, framed=framed)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _good(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records without an error; under Fail all of them."""
        error = batch.column(ERROR)
        bad = batch.num_rows - error.null_count
        if not bad:
            return batch.select(self._kept)
        if self._job.spec.record_errors.policy is OnRecordError.FAIL:
            (first,) = (
                batch.filter(pc.is_valid(error)).slice(0, 1).select(["topic", "partition", "offset", ERROR]).to_pylist()
            )
            msg = f"topic {first['topic']}, partition {first['partition']}, offset {first['offset']}: {first[ERROR]}"
            raise RecordError(msg)
        self.skipped += bad
        return batch.filter(pc.is_null(error)).select(self._kept)
