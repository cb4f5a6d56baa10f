"""Finds the librdkafka that confluent_kafka brings and opens the C extension over it."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka

from sparkapp.native import _kafka_arrow

_MAPS = Path("/proc/self/maps")
_NAME = "librdkafka"


def load() -> None:
    """Opens the library for the extension; repeating it does nothing.

    :raises OSError: no librdkafka that can be used.
    """
    _kafka_arrow.load(str(_path()))


def _path() -> Path:
    # Importing confluent_kafka has mapped its library; that very one is wanted, wherever it was installed.
    if _MAPS.exists():
        for line in _MAPS.read_text().splitlines():
            path = Path(line[line.find("/") :]) if "/" in line else Path()
            if path.name.startswith(_NAME):
                return path
    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    for path in sorted(beside.glob(f"{_NAME}*")):
        return path
    msg = "confluent_kafka has no librdkafka of its own"
    raise OSError(msg)
