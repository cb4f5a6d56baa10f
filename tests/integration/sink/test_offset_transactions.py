"""The driver's transactions of group offsets alone, on the real broker: what is fenced, and what is left open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.transactions import requests as kafka_wire
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.connection import KafkaConnection
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.errors import AuthorizationFailed, CheckpointConflict, TransactionFenced
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.used_ids import UsedIds
from sparkapp.sink.offset_transactions import OffsetTransactions
from tests.support.kafka import visibility

Senders = Callable[[Callable[[], None]], OffsetTransactions]


@pytest.fixture
def partition(make_topic: Callable[..., str]) -> TopicPartition:
    return TopicPartition(make_topic(1, "in"), 0)


@pytest.fixture
def sender(broker: str, unique: str) -> Iterator[Senders]:
    """``sender(require_claim)``: another attempt's driver each time."""
    made: list[OffsetTransactions] = []

    def make(require_claim: Callable[[], None]) -> OffsetTransactions:
        made.append(
            OffsetTransactions(
                KafkaConnection({"bootstrap.servers": broker}),
                prefix=unique,
                group_id=unique,
                require_claim=require_claim,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def committed(broker: str, unique: str, partition: TopicPartition) -> Callable[[], GroupOffset | None]:
    """What the group has, once no open transaction can change it."""
    evidence = GroupOffsetsEvidence({"bootstrap.servers": broker}, group_id=unique)
    return lambda: evidence.committed([partition]).get(partition)


def test_offsets_and_marks_are_committed_and_nothing_is_open(
    sender: Senders, client: TransactionClient, unique: str, partition: TopicPartition,
    committed: Callable[[], GroupOffset | None],
) -> None:  # fmt: skip
    driver = sender(lambda: None)
    for offset in (3, 5, 4):
        assert driver.send({partition: offset}, f"mark {offset}") == {}
        assert committed() == GroupOffset(offset, f"mark {offset}")
    assert visibility.open_transactions(client, unique) == []
    (row,) = client.list_transactions(unique)
    assert row.transactional_id == offsets_id(unique)


def test_A1_what_a_driver_sends_after_its_successor_has_begun_is_refused(
    sender: Senders, client: TransactionClient, unique: str, partition: TopicPartition,
    committed: Callable[[], GroupOffset | None],
) -> None:  # fmt: skip
    """It is frozen right behind the look at its claim, the last moment at which nothing stops it by itself."""
    successor = sender(lambda: None)

    def frozen() -> None:
        assert successor.send({partition: 9}, "uid/2/2") == {}

    refused = sender(frozen).send({partition: 3}, "uid/1/1")
    assert isinstance(refused[partition].error, TransactionFenced)
    assert refused[partition].may_pass, "a driver that was fenced by mistake tries again, and then looks at its claim"
    assert committed() == GroupOffset(9, "uid/2/2")
    assert visibility.open_transactions(client, unique) == []


def test_A1_a_superseded_driver_writes_nothing(
    sender: Senders, client: TransactionClient, unique: str, partition: TopicPartition,
    committed: Callable[[], GroupOffset | None],
) -> None:  # fmt: skip
    def superseded() -> None:
        msg = "attempt 2 has claimed the checkpoint"
        raise CheckpointConflict(msg)

    refused = sender(superseded).send({partition: 3}, "uid/1/1")
    assert isinstance(refused[partition].error, CheckpointConflict)
    assert not refused[partition].may_pass
    assert committed() is None
    assert visibility.open_transactions(client, unique) == []


def test_what_a_driver_left_open_is_aborted_by_the_next_one_and_by_a_sweep(
    sender: Senders, client: TransactionClient, unique: str, partition: TopicPartition,
    committed: Callable[[], GroupOffset | None],
) -> None:  # fmt: skip
    async def never(*_: object) -> None:
        raise AuthorizationFailed("killed before EndTxn")

    killed: Any = sender(lambda: None)
    killed._wire.end_txn = never
    ids = UsedIds(prefixes=[unique], hint=TransactionalIdHint(1, 2), parallelism=1, pool_size=2)
    for end in (
        lambda: sender(lambda: None).send({partition: 4}, "uid/2/1"),
        lambda: abort_lingering(client, ids),
    ):
        assert partition in killed.send({partition: 3}, "uid/1/1")
        assert visibility.open_transactions(client, unique) == [offsets_id(unique)]
        end()
        assert visibility.open_transactions(client, unique) == []
        assert committed() == GroupOffset(4, "uid/2/1")


def test_a_partition_that_does_not_exist_holds_back_no_other(
    sender: Senders, partition: TopicPartition, committed: Callable[[], GroupOffset | None]
) -> None:
    gone = TopicPartition(partition.topic, 7)
    refused = sender(lambda: None).send({partition: 3, gone: 1}, "uid/1/1")
    assert refused.keys() == {gone}
    assert refused[gone].is_gone
    assert committed() == GroupOffset(3, "uid/1/1")


@pytest.mark.parametrize("end", ["", "\0"])
def test_a_mark_is_read_as_it_was_written(
    end: str, sender: Senders, partition: TopicPartition, committed: Callable[[], GroupOffset | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By a client of librdkafka, which writes the end of a C string, and by any other."""
    monkeypatch.setattr(kafka_wire, "_C_END", end)
    driver = sender(lambda: None)
    for length in (1, 4, 8, 40):
        monkeypatch.setattr(kafka_wire, "_C_END", end)
        assert driver.send({partition: length}, "x" * length) == {}
        monkeypatch.undo()
        assert committed() == GroupOffset(length, "x" * length)


def test_evidence_about_partitions_that_are_all_gone_is_empty(
    broker: str, unique: str, client: TransactionClient
) -> None:
    """Brokers remove a topic's offsets with it: a transaction of a deleted topic is judged by its coordinator alone."""
    evidence = GroupOffsetsEvidence({"bootstrap.servers": broker}, group_id=unique, confirm_as=f"{unique}-offsets")
    assert evidence.committed([TopicPartition(f"{unique}.gone", 0), TopicPartition(f"{unique}.gone", 1)]) == {}
    assert visibility.open_transactions(client, unique) == []
