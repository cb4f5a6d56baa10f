"""Totals of fetching, producing and throttling over this process's Kafka clients, from librdkafka's statistics.

librdkafka counts from the opening of a client. Clients are reopened, and each transaction has its own producer, so the
totals belong to the process. Nothing here runs per record: a consumer adds its statistics once a bounded read, and a
producer at its flush.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping

FETCH_REQUESTS = "fetchRequests"
FETCHED_RECORDS = "fetchedRecords"
FETCHED_BYTES = "fetchedBytes"
FETCH_THROTTLE_MILLIS = "fetchThrottleMillis"
PRODUCED_RECORDS = "producedRecords"
FLUSHES = "flushes"
FLUSH_MILLIS = "flushMillis"
PRODUCE_THROTTLE_MILLIS = "produceThrottleMillis"
BUSY_MILLIS = "busyMillis"
"""Time in which a subtask of the continuous engine did not wait for records or orders."""


class ClientTotals:
    """Totals by name; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: Counter[str] = Counter()

    def add(self, numbers: Mapping[str, int]) -> None:
        with self._lock:
            self._numbers.update(numbers)

    def read(self) -> dict[str, int]:
        with self._lock:
            return dict(self._numbers)


TOTALS = ClientTotals()
"""Totals of this process: an executor's Python worker has the clients of a single job."""


class FetchStatistics:
    """Adds a consumer's statistics, which count from its opening, to the totals.

    Fetched records include prefetched records beyond the range of a read.
    """

    def __init__(self, totals: ClientTotals = TOTALS) -> None:
        self._totals = totals
        self._seen: dict[str, int] = {}

    def reopened(self) -> None:
        """A new client counts from 0."""
        self._seen = {}

    def add(self, text: str | None, throttled_millis: int) -> None:
        """Adds the difference to the last call.

        :param text: librdkafka's JSON; None without new statistics.
        :param throttled_millis: throttling since the last call.
        """
        added = {FETCH_THROTTLE_MILLIS: throttled_millis} if throttled_millis else {}
        if text is not None:
            now = _fetched(json.loads(text))
            added |= {name: count - self._seen.get(name, 0) for name, count in now.items()}
            self._seen = now
        if added:
            self._totals.add(added)


def _fetched(statistics: Mapping[str, object]) -> dict[str, int]:
    brokers = statistics.get("brokers")
    requests = (
        [broker.get("req", {}).get("Fetch", 0) for broker in brokers.values()] if isinstance(brokers, dict) else []
    )
    return {
        FETCH_REQUESTS: sum(requests),
        FETCHED_RECORDS: _whole(statistics.get("rxmsgs")),
        FETCHED_BYTES: _whole(statistics.get("rxmsg_bytes")),
    }


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
