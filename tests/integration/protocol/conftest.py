"""Stories of jobs over many attempts, on the real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from tests.support.protocol.story import Story

Stories = Callable[..., Story]


@pytest.fixture
def story(broker: str, unique: str, client: TransactionClient, make_topic: Callable[..., str]) -> Iterator[Stories]:
    """``story(timeout=60, partitions=3) -> Story`` on topics of its own; its processes end with the test."""
    made: list[Story] = []

    def make(*, partitions: int = 3, **fields: object) -> Story:
        prefix = f"{unique}.{len(made)}"
        made.append(
            Story(
                bootstrap=broker,
                source=make_topic(partitions, "in"),
                sink=make_topic(2, "out"),
                prefix=prefix,
                client=client,
                partitions=partitions,
                **fields,  # type: ignore[arg-type]
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()
