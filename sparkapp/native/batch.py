"""Opens consumers and producers of Arrow batches: over the C extension where it is built, else without it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Literal

from sparkapp.native.interface import BatchConsumer, BatchProducer

SWITCH = "KAFKASPARK_NATIVE"
"""Environment variable; ``0`` forces the plain implementation."""


@cache
def _is_built() -> bool:
    try:
        from sparkapp.native import native_consumer  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


def implementation() -> Literal["native", "plain"]:
    """Which implementation the open functions choose; the driver logs it."""
    return "native" if os.environ.get(SWITCH) != "0" and _is_built() else "plain"


def open_consumer(config: Mapping[str, str]) -> BatchConsumer:
    """A consumer of bounded ranges.

    :param config: librdkafka's keys, complete: bootstrap.servers, security, group.id, isolation.level (read_committed
        unless given).
    :raises ConfigurationError: a key or value that librdkafka does not take.
    """
    if implementation() == "native":
        from sparkapp.native.native_consumer import NativeConsumer

        return NativeConsumer(config)
    from sparkapp.native.plain_consumer import PlainConsumer

    return PlainConsumer(config)


def open_producer(config: Mapping[str, str]) -> BatchProducer:
    """A producer of record batches, transactional if the configuration has a ``transactional.id``.

    :raises ConfigurationError: a key or value that librdkafka does not take.
    """
    if implementation() == "native":
        from sparkapp.native.native_producer import NativeProducer

        return NativeProducer(config)
    from sparkapp.native.plain_producer import PlainProducer

    return PlainProducer(config)
