"""Finds the librdkafka of the confluent_kafka package and opens it for the C extension."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka

from sparkapp.dataplane.native import _kafka_arrow

_MAPS = Path("/proc/self/maps")
_NAME = "librdkafka"


def load() -> None:
    """Opens the library for the extension; a repeated call does nothing.

    :raises OSError: no usable librdkafka was found.
    """
    _kafka_arrow.load(str(library()))


def library() -> Path:
    """The file of the library; also called by the bench, whose program in C is linked with it.

    :raises OSError: confluent_kafka has no librdkafka of its own.
    """
    # The import of confluent_kafka has mapped its library; the extension must use the same file, wherever it is.
    if _MAPS.exists():
        for line in _MAPS.read_text().splitlines():
            path = Path(line[line.find("/") :]) if "/" in line else Path()
            if path.name.startswith(_NAME):
                return path
    libraries = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    for path in sorted(libraries.glob(f"{_NAME}*")):
        return path
    msg = "confluent_kafka has no librdkafka of its own"
    raise OSError(msg)
