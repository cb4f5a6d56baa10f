"""Asks Kafka's transaction coordinators what a job has left open."""

from __future__ import annotations

import time

from sparkapp.sink.transaction_client import TransactionClient

_ENDING_SECONDS = 10.0
_PAUSE = 0.1


def open_transactions(bootstrap: str, prefix: str) -> list[str]:
    """The ids of the prefix with an open transaction.

    One that is ending already needs nobody: the coordinator is writing its markers. It is given the time to; what is
    not done after that counts as open.
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
