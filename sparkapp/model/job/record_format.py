"""The formats of keys and values, and the traits that the other modules ask for.

A new format has its traits here and its decoder in ``sparkapp.spark.frames.records``. The CRD's enums and CEL rules
repeat name and traits, because the API server reads no Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Format(StrEnum):
    """The form in which the transform gets a key or a value."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    """Avro and Protobuf are in Confluent's wire format: a zero byte, the schema's id in the registry, the record."""

    @property
    def traits(self) -> FormatTraits:
        """The format's row of :data:`TRAITS`."""
        return TRAITS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTraits:
    """Properties of a format. None has a default, so that each format declares all of them.

    :param needs_schema: the resource has to give ``keySchema`` or ``valueSchema``.
    :param registered: the columns come from the schema registry, and the resource's schema is optional. A format with
        neither trait takes no schema.
    :param fallible: a record can fail to parse. Its decoder adds an error column, which ``onRecordError`` acts on.
    """

    needs_schema: bool
    registered: bool
    fallible: bool


TRAITS = {
    Format.RAW: FormatTraits(needs_schema=False, registered=False, fallible=False),
    Format.STRING: FormatTraits(needs_schema=False, registered=False, fallible=False),
    Format.JSON: FormatTraits(needs_schema=True, registered=False, fallible=True),
    Format.AVRO: FormatTraits(needs_schema=False, registered=True, fallible=True),
    Format.PROTOBUF: FormatTraits(needs_schema=False, registered=True, fallible=True),
}
"""The traits of every format."""
