"""Records in Confluent's wire format: a zero byte, the schema's id in four bytes, and what that schema says.

Decoded a batch at a time: each record by its writer's schema, all into one column of the reader's type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sparkapp.model.errors import SchemaNotFound, SchemaUnusable

HEAD = 5
_MAX_ERROR = 500
Read = Callable[[bytes], Any]


class BadRecord(Exception):
    """A record's own fault; its text is told in the dead letter, on one line."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split())[:_MAX_ERROR])


class RegisteredDecoder(ABC):
    """Decodes one side of a topic; lives in a Python worker and keeps the writers' schemas that it has met.

    :param raw_type: Arrow type of what the reads give; times in the schema's units.
    """

    def __init__(self, raw_type: pa.DataType) -> None:
        self._raw_type = raw_type
        self.type = _for_spark(raw_type)
        """Arrow type of the decoded column."""
        self._reads: dict[int, Read] = {}

    @abstractmethod
    def _read_of(self, schema_id: int) -> Read:
        """How to read a record (head included) of a writer's schema; the read raises what it meets.

        :raises SchemaNotFound: and SchemaUnusable: no record of this id can be read.
        :raises SchemaRegistryUnreachable: nobody knows.
        """

    def decode(self, values: pa.Array[Any]) -> tuple[pa.Array[Any], list[str | None]]:
        """The decoded column, and an error text for each value that could not be; null is null and no error.

        :raises SchemaRegistryUnreachable: a writer's schema could not be asked for; that is no fault of the record.
        """
        # Ids that the registry does not know are asked for again with the next batch: they may be registered by then.
        reads = dict(self._reads)
        records: list[Any] = []
        errors: list[str | None] = []
        for value in values.to_pylist():
            record, error = None, None
            if value is not None:
                try:
                    record = self._read(value, reads)
                except BadRecord as bad:
                    error = str(bad)
            records.append(record)
            errors.append(error)
        return self._column(records, errors), errors

    def _read(self, value: bytes, reads: dict[int, Read]) -> Any:
        if len(value) < HEAD or value[0] != 0:
            msg = f"it does not begin with a zero byte and a schema id, but with {value[:HEAD].hex() or 'nothing'}"
            raise BadRecord(msg)
        schema_id = int.from_bytes(value[1:HEAD], "big")
        read = reads.get(schema_id)
        if read is None:
            try:
                read = self._reads[schema_id] = self._read_of(schema_id)
            except (SchemaNotFound, SchemaUnusable) as error:
                read = _refusing(error.message)
            reads[schema_id] = read
        try:
            return read(value)
        except BadRecord:
            raise
        except Exception as error:  # whatever the format's library meets in bytes that are no record of the schema
            msg = f"schema {schema_id}: {type(error).__name__}: {error}"
            raise BadRecord(msg) from error

    def _column(self, records: list[Any], errors: list[str | None]) -> pa.Array[Any]:
        try:
            return pa.array(records, self._raw_type).cast(self.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            # One value at least is outside its column's range, a timestamp for instance: find which.
            for index, record in enumerate(records):
                try:
                    pa.array([record], self._raw_type).cast(self.type)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    records[index] = None
                    errors[index] = str(BadRecord(f"it does not fit its column: {error}"))
            return pa.array(records, self._raw_type).cast(self.type)


def _refusing(text: str) -> Read:
    def read(_: bytes) -> Any:
        raise BadRecord(text)

    return read


def _for_spark(kind: pa.DataType) -> pa.DataType:
    """Spark counts time in microseconds."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _for_spark(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_for_spark(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _for_spark(kind.item_type))
    return kind
