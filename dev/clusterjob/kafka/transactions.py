"""Lists the open transactions of a job, from Kafka's transaction coordinators."""

from __future__ import annotations

import time

from sparkapp.clients.transactions.client import TransactionClient

_ENDING_SECONDS = 10.0
_PAUSE = 0.1


def open_transactions(bootstrap: str, prefix: str) -> list[str]:
    """The transactional ids of the prefix that have an open transaction.

    A transaction that is ending needs no help: its coordinator is writing the markers. The function waits for it, and
    counts it as open when the time is up.
    """
    client = TransactionClient({"bootstrap.servers": bootstrap, "client.id": "kafkaspark-demo"})
    deadline = time.monotonic() + _ENDING_SECONDS
    try:
        while True:
            rows = client.list_transactions(prefix)
            ending = [row.transactional_id for row in rows if row.state.ending]
            if not ending or time.monotonic() > deadline:
                return [row.transactional_id for row in rows if row.state.open] + ending
            time.sleep(_PAUSE)
    finally:
        client.close()
