"""Opens consumers and producers of Arrow batches: over the C extension where it is built, else without it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Literal

from sparkapp.model.errors import ExtensionMissing
from sparkapp.native.interface import BatchConsumer, BatchProducer

SWITCH = "KAFKASPARK_NATIVE"
"""Environment variable: ``auto`` (the default) takes the extension where it loads, ``0`` forces the plain
implementation, ``required`` refuses to run without the extension; the image sets the last."""


@cache
def _why_not_native() -> str:
    """Why the extension does not load; empty where it does."""
    try:
        from sparkapp.native import native_consumer  # noqa: F401
    except (ImportError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def implementation() -> Literal["native", "plain"]:
    """Which implementation the open functions choose; the driver asks first of all, and logs it.

    :raises ExtensionMissing: ``KAFKASPARK_NATIVE=required``, and the extension does not load.
    """
    switch = os.environ.get(SWITCH, "auto")
    why_not = "" if switch == "0" else _why_not_native()
    if why_not and switch == "required":
        raise ExtensionMissing(f"the batch path's C extension does not load: {why_not}")
    return "plain" if why_not or switch == "0" else "native"


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
