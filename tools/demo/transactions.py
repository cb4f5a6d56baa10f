"""Asks Kafka's transaction coordinators what a job has left open."""

from __future__ import annotations

from sparkapp.sink.transaction_client import TransactionClient


def open_transactions(bootstrap: str, prefix: str) -> list[str]:
    """The ids ``prefix-N`` with an open transaction."""
    client = TransactionClient({"bootstrap.servers": bootstrap, "client.id": "kafkaspark-demo"})
    try:
        return [row.transactional_id for row in client.list_transactions(prefix) if row.state.open]
    finally:
        client.close()
