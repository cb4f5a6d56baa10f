"""A collector of OpenLineage on this machine: takes events over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.jobs.http_receiver import http_receiver


@dataclass(slots=True)
class Receiver:
    """:ivar url: for ``OPENLINEAGE_URL``. :ivar events: in the order of their arrival."""

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def await_events(self, count: int, seconds: float) -> list[dict[str, Any]]:
        """The first events, once there are so many."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(self.events) >= count:
                return self.events[:count]
            time.sleep(0.1)
        raise AssertionError(f"fewer than {count} events within {seconds} s: {self.events}")


@contextmanager
def lineage_receiver() -> Iterator[Receiver]:
    """A receiver for the length of the block."""
    events: list[dict[str, Any]] = []

    def receive(body: bytes) -> bytes:
        events.append(json.loads(body))
        return b""

    with http_receiver("/api/v1/lineage", receive, status=201) as url:
        yield Receiver(url, events)
