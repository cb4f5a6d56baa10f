"""The job of these tests: two partitions with sixty records, of which a checkpoint takes ten."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from tests.support.protocol.story import Story


@pytest.fixture
def job(broker: str, make_topic: Callable[..., str], unique: str, client: TransactionClient) -> Iterator[Story]:
    made = Story(broker, make_topic(2, "in"), make_topic(1, "out"), unique, client, partitions=2, per_checkpoint=10)
    made.produce(60)
    yield made
    made.close()
