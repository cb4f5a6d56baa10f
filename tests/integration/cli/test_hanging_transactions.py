"""``txn hanging`` and ``txn end`` on real brokers that leave out markers (KAFKA-20734)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.__main__ import main
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.clients.transactions.states import EndTxn, TransactionState
from tests.support.kafka import visibility
from tests.support.kafka.three_brokers import Ensemble, Layout
from tests.support.patience import PATIENCE, until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

PREFIX = "hand"
COMMITTED, ABORTED, KEPT, DROPPED = IDS = tuple(f"{PREFIX}-{number}" for number in range(4))
FORGOTTEN = (KEPT, DROPPED)
OPEN = f"{PREFIX}-4"
SCOPE = LogScope(topics=frozenset(["out"]), groups=frozenset(["g"]))
OVER = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT, TransactionState.EMPTY}
WHERE = ("--prefix", PREFIX, "--topic", "out", "--group", "g")


@pytest.fixture
def ensemble(tmp_path) -> Iterator[Ensemble]:
    """The sink and the group's offsets are on broker 3 alone, which coordinates no transaction."""
    with Ensemble(tmp_path, Layout(groups=((3,),))) as running:
        yield running


@pytest.fixture
def txn(ensemble, capsys):
    """``txn("hanging", …)``: exit status, output, messages."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["txn", *map(str, arguments), "--bootstrap", ensemble.bootstrap])
        return (status, *capsys.readouterr())

    return run


def opened(bootstrap: str, transactional_id: str) -> Producer:
    """A producer with an open transaction of one record and one offset of the group."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    number = transactional_id.rpartition("-")[2]
    producer.produce("out", number, partition=0)
    assert producer.flush(PATIENCE) == 0
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    offset = ClientPartition("out", 0, int(number) + 100)
    producer.send_offsets_to_transaction([offset], reader.consumer_group_metadata(), PATIENCE)
    reader.close()
    return producer


def test_what_hangs_is_listed_and_ended_with_the_right_outcome(ensemble: Ensemble, txn) -> None:
    ensemble.make_topic_on("out", [3])
    with closing(TransactionClient({"bootstrap.servers": ensemble.bootstrap})) as client:
        producers = [opened(ensemble.bootstrap, each) for each in (*IDS, OPEN)]
        ensemble.kill(3)
        ensemble.await_gone(3)
        known = client.describe(IDS)
        ends = [
            EndTxn(
                transactional_id=each, producer_id=known[each].producer_id, producer_epoch=known[each].producer_epoch,
                commit=each not in {ABORTED, DROPPED},
            )
            for each in IDS
        ]  # fmt: skip
        assert [str(answer) for answer in client.end_all(ends)] == ["EndTxnAnswer.NONE"] * len(IDS)
        until(lambda: all(now.state in OVER for now in client.describe(IDS).values()))
        client.fence_all(FORGOTTEN)
        ensemble.restart_brokers()

        status, output, message = txn("hanging", *WHERE, "--output", "json")
        rows = json.loads(output)
        assert status == 0, message
        assert {(row["transactionalId"], row["partition"], row["state"], row["end"]) for row in rows} == {
            (each, partition, state, end)
            for each, state, end in (
                (COMMITTED, "CompleteCommit", "Commit"), (ABORTED, "CompleteAbort", "Abort"),
                (KEPT, "Empty", "Unknown"), (DROPPED, "Empty", "Unknown"),
            )
            for partition in ("out-0", "__consumer_offsets-0")
        }  # fmt: skip
        assert all(row["producerId"] == known[row["transactionalId"]].producer_id for row in rows)
        assert [row["startOffset"] for row in rows if row["partition"] == "out-0"] == [0, 1, 2, 3]

        assert "is the outcome" in txn("end", COMMITTED, "--outcome", "abort", *WHERE, "--yes")[2]
        assert "is forgotten" in txn("end", KEPT, *WHERE, "--yes")[2]
        assert "nothing hangs under" in txn("end", OPEN, *WHERE, "--yes")[2]
        assert txn("end", COMMITTED, *WHERE)[0] == 0
        assert json.loads(txn("hanging", *WHERE, "--output", "json")[1]) == rows, "nothing was done"
        for command in ((COMMITTED,), (ABORTED,), (KEPT, "--outcome", "commit"), (DROPPED, "--outcome", "abort")):
            status, _, message = txn("end", *command, *WHERE, "--yes")
            assert (status, "have the marker" in message) == (0, True), message
        assert txn("hanging", *WHERE)[:2] == (0, "nothing hangs in 2 partitions\n")
        assert {each.producer_id for found in client.logs.open_in(SCOPE).open.values() for each in found} == {
            client.describe([OPEN])[OPEN].producer_id
        }
        producers[-1].abort_transaction(PATIENCE)
        until(lambda: not client.logs.open_in(SCOPE).open)
        assert visibility.open_transactions(client, PREFIX) == []
    assert visibility.numbers(ensemble.bootstrap, "out") == [0, 2]
    reader = Consumer({"bootstrap.servers": ensemble.bootstrap, "group.id": "g"})
    (offset,) = reader.committed([ClientPartition("out", 0)], PATIENCE)
    reader.close()
    assert offset.offset == 102, "of the last marker that committed"
