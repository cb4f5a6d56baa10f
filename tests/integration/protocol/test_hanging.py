"""Real brokers that leave out markers (KAFKA-20734), and a start that writes them with the right outcome (ADR 68)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.clients.transactions.states import EndTxn, TransactionState
from sparkapp.model.errors import TransactionHanging
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import FIRST_HINT
from sparkapp.sink.ending.hanging import HangingAtStart
from sparkapp.sink.ending.proven_ends import ProvenEnds
from sparkapp.sink.ending.used_ids import UsedIds
from tests.support.kafka import visibility
from tests.support.kafka.three_brokers import Ensemble
from tests.support.patience import PATIENCE, until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

PREFIX = "hangs"
COMMITTED, ABORTED, EXPIRED, FENCED, FORGOTTEN = (f"{PREFIX}-{number}" for number in range(5))
TIMEOUTS = {EXPIRED: 1_000}
SCOPE = LogScope(topics=frozenset(["out"]), groups=frozenset(["g"]))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


def opened(bootstrap: str, transactional_id: str) -> Producer:
    """A producer with an open transaction of one record, which has the id's number."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "transactional.id": transactional_id,
            "transaction.timeout.ms": TIMEOUTS.get(transactional_id, 600_000),
        }
    )  # fmt: skip
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce("out", transactional_id.rpartition("-")[2], partition=0)
    assert producer.flush(PATIENCE) == 0
    return producer


def seen(ensemble: Ensemble) -> list[str]:
    return sorted(value.decode() for value in visibility.records(ensemble.bootstrap, "out"))


def test_a_start_writes_each_missing_marker_with_the_outcome_of_its_transaction(ensemble: Ensemble) -> None:
    """Ends by the driver, by a task, by the time-out and by a fence, while the partition has no leader."""
    ensemble.make_topic_on("out", [3])
    ids = (COMMITTED, ABORTED, EXPIRED, FENCED, FORGOTTEN)
    with closing(TransactionClient({"bootstrap.servers": ensemble.bootstrap})) as client:
        producers = [opened(ensemble.bootstrap, each) for each in ids[:2] + ids[3:]]
        producers.append(opened(ensemble.bootstrap, EXPIRED))
        ensemble.kill(3)
        ensemble.await_gone(3)
        known = client.describe(ids)
        ends = [
            EndTxn(
                transactional_id=each, producer_id=known[each].producer_id, producer_epoch=known[each].producer_epoch,
                commit=each != ABORTED,
            )
            for each in (COMMITTED, ABORTED, FORGOTTEN)
        ]  # fmt: skip
        assert [str(answer) for answer in client.end_all(ends)] == ["EndTxnAnswer.NONE"] * 3
        client.fence_all([FENCED])
        over = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT, TransactionState.EMPTY}
        until(lambda: all(now.state in over for now in client.describe(ids).values()))
        client.fence_all([FORGOTTEN])
        ensemble.restart_brokers()
        partition = TopicPartition("out", 0)
        assert {each.producer_id for each in client.logs.open_in([partition]).open[partition]} == {
            now.producer_id for now in known.values()
        }, "no marker has come to the partition"

        start = HangingAtStart(client, ProvenEnds(client, SCOPE), scope=SCOPE, fence=False, require_claim=lambda: None)
        rows = UsedIds(prefixes=[PREFIX], hint=FIRST_HINT, parallelism=1, pool_size=1).rows(
            client, deadline=Deadline.after(PATIENCE)
        )
        with pytest.raises(TransactionHanging, match=rf"{FORGOTTEN} \(producer \d+\) in out-0 from offset"):
            start.end(rows, spare=(), deadline=Deadline.after(PATIENCE))
        (left,) = client.logs.open_in([partition]).open[partition]
        assert left.producer_id == known[FORGOTTEN].producer_id, "either marker may be wrong"
        client.end_again(
            EndTxn(
                transactional_id=FORGOTTEN, producer_id=left.producer_id,
                producer_epoch=client.describe([FORGOTTEN])[FORGOTTEN].producer_epoch, commit=True,
            ),
            [partition], deadline=Deadline.after(PATIENCE),
        )  # fmt: skip
        until(lambda: not client.logs.open_in([partition]).open)
        assert start.end(rows, spare=(), deadline=Deadline.after(PATIENCE)) == 0
    assert seen(ensemble) == [each.rpartition("-")[2] for each in (COMMITTED, FORGOTTEN)]
