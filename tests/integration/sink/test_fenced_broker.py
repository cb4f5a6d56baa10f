"""What coordinators answer while their only broker is out of service for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.requests import KafkaWire
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.used_ids import UsedIds
from tests.support.kafka import visibility
from tests.support.kafka.broker_fencing import Fencing
from tests.support.kafka.topics import create_topics
from tests.support.native.batch_path import BatchPath

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker of this module's own."""
    from localcluster.kafka.broker import Broker

    with Broker.ephemeral(tmp_path_factory.mktemp("lonely")) as broker:
        yield broker


def test_a_list_that_was_taken_meanwhile_is_taken_again(lonely: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator had loaded before, and has after; in between it listed nothing, without an error."""
    path = BatchPath("native", lonely.bootstrap)
    client, other = (TransactionClient({"bootstrap.servers": lonely.bootstrap}) for _ in range(2))
    fencing = Fencing(lonely._controller.port)
    create_topics(lonely.bootstrap, NewTopic("out", 1, 1))
    producer = path.transactional("p-0")
    producer.begin_transaction()
    producer.produce(pa.RecordBatch.from_pydict({"value": [b"1"]}), topic="out")
    assert producer.flush(30) == 1
    path.transactional("p-1")
    assert [row.transactional_id for row in client.list_transactions("p")] == ["p-0", "p-1"]

    answers: list[list[str]] = []
    plain = KafkaWire.list_transactions

    async def listed(wire: KafkaWire, pattern: str | None, node: Any, deadline: Deadline) -> Any:
        first = not answers
        rows = await plain(wire, pattern, node, deadline)
        while first and rows:
            fencing.fence()  # of which the broker hears a little later
            rows = await plain(wire, pattern, node, deadline)
        answers.append(sorted(row.transactional_id for row in rows))
        if first:
            assert len(other.describe(["p-0", "p-1"])) == 2, "once it serves again"
        return rows

    monkeypatch.setattr(KafkaWire, "list_transactions", listed)
    assert [row.transactional_id for row in client.list_transactions("p")] == ["p-0", "p-1"]
    assert answers == [[], ["p-0", "p-1"]]
    monkeypatch.undo()

    ids = UsedIds(prefixes=["p"], hint=TransactionalIdHint(1, 2), parallelism=1, pool_size=2)
    assert abort_lingering(client, ids) == ("p-0",)
    assert visibility.open_transactions(client, "p") == []
    assert visibility.numbers(lonely.bootstrap, "out") == []
    fencing.close()
    for each in (client, other, path):
        each.close()
