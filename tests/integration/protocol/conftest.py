"""Stories of jobs over many attempts, on the real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.spec import Engine
from tests.support.protocol.story import Story

Stories = Callable[..., Story]
_MICRO_BATCH_ALONE = {"aligned", "odd", "letters"}
"""Fields of a story: shuffles, and what the stories' function over Arrow batches does not choose."""


@pytest.fixture
def story(
    broker: str, unique: str, client: TransactionClient, make_topic: Callable[..., str], pytestconfig: pytest.Config
) -> Iterator[Stories]:
    """``story(timeout=60, partitions=3) -> Story`` on topics of its own; its processes end with the test.

    With ``--engine Continuous``, in that engine, except for what it does not have. A story with a ``sink`` on other
    brokers has their ``client``.
    """
    made: list[Story] = []
    engine = Engine(pytestconfig.getoption("--engine"))

    def make(*, partitions: int = 3, **fields: object) -> Story:
        prefix = f"{unique}.{len(made)}"
        if not fields.keys() & _MICRO_BATCH_ALONE:
            fields.setdefault("engine", engine)
        if "sink" not in fields:
            fields |= {"sink": make_topic(2, "out"), "client": client}
        made.append(
            Story(
                bootstrap=broker,
                source=make_topic(partitions, "in"),
                prefix=prefix,
                partitions=partitions,
                **fields,  # type: ignore[arg-type]
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()
