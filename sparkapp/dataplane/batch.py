"""Opens consumers and producers of Arrow batches, over the C extension or the plain fallback."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Literal

from sparkapp.dataplane.interface import BatchConsumer, BatchProducer
from sparkapp.model.errors import ExtensionMissing

SWITCH = "KAFKASPARK_NATIVE"
"""Environment variable that selects the implementation.

``auto`` (the default) uses the extension if it loads, and ``0`` forces the plain implementation. ``required`` refuses
to run without the extension; the image sets it."""


@cache
def _why_not_native() -> str:
    """The error that keeps the extension from loading; empty if it loads."""
    try:
        from sparkapp.dataplane.native import consumer  # noqa: F401
    except (ImportError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def implementation() -> Literal["native", "plain"]:
    """The implementation that the open functions choose; the driver calls it before anything else, and logs it.

    :raises ExtensionMissing: ``KAFKASPARK_NATIVE=required``, and the extension does not load.
    """
    switch = os.environ.get(SWITCH, "auto")
    why_not = "" if switch == "0" else _why_not_native()
    if why_not and switch == "required":
        raise ExtensionMissing(f"the batch path's C extension does not load: {why_not}")
    return "plain" if why_not or switch == "0" else "native"


def open_consumer(config: Mapping[str, str]) -> BatchConsumer:
    """A consumer of bounded ranges.

    :param config: complete librdkafka configuration: bootstrap.servers, security, group.id, isolation.level (default
        read_committed).
    :raises ConfigurationError: a key or value that librdkafka refuses.
    """
    if implementation() == "native":
        from sparkapp.dataplane.native.consumer import NativeConsumer

        return NativeConsumer(config)
    from sparkapp.dataplane.plain.consumer import PlainConsumer

    return PlainConsumer(config)


def open_producer(config: Mapping[str, str]) -> BatchProducer:
    """A producer of record batches, transactional if the configuration has a ``transactional.id``.

    :raises ConfigurationError: a key or value that librdkafka refuses.
    """
    if implementation() == "native":
        from sparkapp.dataplane.native.producer import NativeProducer

        return NativeProducer(config)
    from sparkapp.dataplane.plain.producer import PlainProducer

    return PlainProducer(config)
