"""Records in Confluent's wire format: a zero byte, the schema's id in four bytes, and the data.

A batch is decoded at a time: each record by its writer's schema, and all records into a column of the reader's type.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.model.errors import SchemaNotFound, SchemaUnusable

HEAD = 5
"""Bytes of the frame: a zero byte and the schema's id, before the data."""
_LIKE = (
    (b"Obj\x01", "an Avro file"),
    (b"\xc3\x01", "Avro's encoding of single objects"),
    (b"{", "JSON"),
    (b"[", "JSON"),
    (b'"', "JSON"),
)
"""First bytes of what else a record may be."""
_MAX_ERROR = 500
REFUSED_SECONDS = 10.0
"""A schema that the registry does not have, or that cannot be used, is requested again after this time. A schema is
registered before its first record, so that this concerns registries that answer from a late copy. Confluent's client
has ``missing.id.cache.ttl.sec`` for it."""
REFUSED_IDS = 10_000
"""Refused schemas that are remembered, the newest; ``missing.cache.size`` of Confluent's client."""
REFUSALS, REFUSALS_PER_SECOND = 1_000, 100
"""Requests for refused ids that a decoder sends at once, and afterwards in a second. Records can name any number of ids
that do not exist, and the registry is shared. An unknown id is always requested before its record is an error."""
Read = Callable[[bytes], Any]


class BadRecord(Exception):
    """The record itself is invalid; the dead letter has the text in a single line."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split())[:_MAX_ERROR])


class RegisteredDecoder(ABC):
    """Decodes a side of a topic, in a Python worker; caches the writers' schemas.

    :param raw_type: Arrow type of the values from :data:`Read`; times in the schema's units.
    """

    def __init__(self, registry: SchemaRegistry, raw_type: pa.DataType) -> None:
        self._registry = registry
        self._raw_type = raw_type
        self.type = _for_spark(raw_type)
        """Arrow type of the decoded column."""
        self._reads: dict[int, Read] = {}
        self._refused: dict[int, tuple[float, Read]] = {}
        self._clock, self._sleep = time.monotonic, time.sleep
        self._paid = 0.0
        """The time by which the rate of requests for refused ids is :data:`REFUSALS_PER_SECOND`."""

    @abstractmethod
    def _read_of(self, schema_id: int) -> Read:
        """Creates the function that reads a record (head included) of a writer's schema; it may raise any error.

        :raises SchemaNotFound: and SchemaUnusable: no record of this id can be read.
        :raises SchemaRegistryUnreachable: the registry does not answer.
        """

    def decode(self, values: pa.Array[Any]) -> tuple[pa.Array[Any], list[str | None]]:
        """The decoded column, and an error text for each value that failed; null stays null, without an error.

        :raises SchemaRegistryUnreachable: a writer's schema could not be requested; the record may be valid.
        """
        records: list[Any] = []
        errors: list[str | None] = []
        with self._registry.session():
            for value in values.to_pylist():
                record, error = None, None
                if value is not None:
                    try:
                        record = self._read(value)
                    except BadRecord as bad:
                        error = str(bad)
                records.append(record)
                errors.append(error)
        return self._column(records, errors), errors

    def _read(self, value: bytes) -> Any:
        schema_id = schema_id_of(value)
        if schema_id is None:
            start = f"{value[:HEAD].hex() or 'nothing'}{look_of(value)}"
            msg = f"it does not begin with a zero byte and a schema id, but with {start}"
            raise BadRecord(msg)
        read = self._read_by(schema_id)
        try:
            return read(value)
        except BadRecord:
            raise
        except Exception as error:  # any error of the format's library for bytes that are not a record of the schema
            msg = f"schema {schema_id}: {type(error).__name__}: {error}"
            raise BadRecord(msg) from error

    def _read_by(self, schema_id: int) -> Read:
        """The function for a schema; it refuses where there is none, for some time without another request."""
        read = self._reads.get(schema_id)
        if read is not None:
            return read
        until, refusing = self._refused.get(schema_id, (0.0, None))
        if refusing is not None and self._clock() < until:
            return refusing
        try:
            read = self._reads[schema_id] = self._read_of(schema_id)
        except (SchemaNotFound, SchemaUnusable) as error:
            read = _refusing(error.message)
            self._refused.pop(schema_id, None)
            if len(self._refused) >= REFUSED_IDS:
                del self._refused[next(iter(self._refused))]
            self._refused[schema_id] = (self._clock() + REFUSED_SECONDS, read)
            self._slow_down()
        return read

    def _slow_down(self) -> None:
        """Waits after a refusal while the decoder has sent too many requests for refused ids."""
        now = self._clock()
        self._paid = max(self._paid, now - REFUSALS / REFUSALS_PER_SECOND) + 1 / REFUSALS_PER_SECOND
        if self._paid > now:
            self._sleep(self._paid - now)

    def _column(self, records: list[Any], errors: list[str | None]) -> pa.Array[Any]:
        try:
            return pa.array(records, self._raw_type).cast(self.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            # At least one value is outside its column's range, for instance a timestamp: find it.
            for index, record in enumerate(records):
                try:
                    pa.array([record], self._raw_type).cast(self.type)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    records[index] = None
                    errors[index] = str(BadRecord(f"it does not fit its column: {error}"))
            return pa.array(records, self._raw_type).cast(self.type)


def schema_id_of(value: bytes) -> int | None:
    """The schema id in the frame of a value; None without a frame.

    Ids are signed, and positive: a registry of Java answers a greater number as an unknown path.
    """
    if len(value) < HEAD or value[0] != 0 or value[1] > 0x7F:
        return None
    return int.from_bytes(value[1:HEAD], "big")


def look_of(value: bytes) -> str:
    """What a value without a frame looks like, for the error's text; empty if that is not known."""
    start = value[:64].lstrip()
    return next((f", which looks like {kind}" for first, kind in _LIKE if start.startswith(first)), "")


def framed_error(side: str) -> tuple[str, str]:
    """The error of a value in JSON that has a frame: the texts before and behind the schema id.

    Both parsers of JSON have it, and Spark's is an expression.
    """
    return f"the {side} is framed by a schema registry, so it is not JSON alone (schema id ", ")"


def _refusing(text: str) -> Read:
    def read(_: bytes) -> Any:
        raise BadRecord(text)

    return read


def _for_spark(kind: pa.DataType) -> pa.DataType:
    """The type with times in microseconds, as in Spark."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _for_spark(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_for_spark(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _for_spark(kind.item_type))
    return kind
