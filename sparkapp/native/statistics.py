"""What this process's Kafka clients have fetched, produced and been throttled for: librdkafka's statistics as totals.

librdkafka counts from the opening of a client. Clients are reopened, and each transaction has a producer of its own, so
the totals are the process's. Nothing here runs per record: a consumer's statistics are read once a bounded read, and a
producer's at its flush.
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
"""Of this process: an executor's Python worker has the clients of one job."""


class FetchStatistics:
    """Turns one consumer's statistics, which count from its opening, into additions to the totals.

    Fetched records are what the client has received; what is beyond a range is fetched, too, and kept.
    """

    def __init__(self, totals: ClientTotals = TOTALS) -> None:
        self._totals = totals
        self._seen: dict[str, int] = {}

    def reopened(self) -> None:
        """Another client counts from 0."""
        self._seen = {}

    def note(self, text: str | None, throttled_millis: int) -> None:
        """
        :param text: librdkafka's JSON; None where there is nothing new.
        :param throttled_millis: since the last call.
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
    requests = [one.get("req", {}).get("Fetch", 0) for one in brokers.values()] if isinstance(brokers, dict) else []
    return {
        FETCH_REQUESTS: sum(requests),
        FETCHED_RECORDS: _whole(statistics.get("rxmsgs")),
        FETCHED_BYTES: _whole(statistics.get("rxmsg_bytes")),
    }


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
