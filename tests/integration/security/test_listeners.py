"""Every client of a job, on every kind of listener: librdkafka's three, the wire of transactions, and the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.__main__ import main
from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.checkpoint.store import FileStore
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.topics.sink_topics import SinkTopics
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import TransactionState
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.group.member import KafkaGroupMember
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import CommittedOffsetsInitializer
from sparkapp.source.plain_offsets import PlainOffsets
from tests.support.jobs.commit_counter import CommitCounter
from tests.support.jobs.group_job import membership_options
from tests.support.kafka.end_txn import end_txn
from tests.support.kafka.tls.broker import AUTHENTICATIONS, TlsBroker
from tests.support.native.batch_path import BatchPath, split, values_of

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

PARTITION = TopicPartition("mine", 0)
SECONDS = 30.0


@pytest.fixture(scope="module", params=AUTHENTICATIONS)
def authentication(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def config(authentication: str, tls_broker: TlsBroker) -> dict[str, str]:
    """The properties of a job's ``spec.kafka``. Without authentication everybody is ANONYMOUS, a super user here."""
    return tls_broker.config(authentication)


@pytest.fixture
def transactions(config: dict[str, str]) -> Iterator[TransactionClient]:
    client = TransactionClient(config, timeout=SECONDS)
    yield client
    client.close()


def opened(path: str, config: Mapping[str, str]) -> BatchPath:
    return BatchPath(path, config["bootstrap.servers"])


def names_of(config: Mapping[str, str]) -> dict[str, str]:
    """As keyword arguments, which stand for names with dots."""
    return {name.replace(".", "_"): value for name, value in config.items() if name != "bootstrap.servers"}


@pytest.mark.parametrize("path", ["native", "plain"])
def test_a_transaction_is_written_committed_by_the_wire_and_read(
    path: str, authentication: str, config: dict[str, str], transactions: TransactionClient
) -> None:
    batch_path, text = opened(path, config), f"{authentication}-{path}"
    name = f"mine-{text}"
    producer = batch_path.producer(**names_of(config), transactional_id=name)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    (start,) = (view_of(config).latest([PARTITION])).values()
    producer.produce(pa.record_batch({"value": pa.array([text])}), topic="mine")
    assert producer.flush(SECONDS) == 1
    producer.send_offsets({PARTITION: start}, group_id="mine", metadata=text, timeout=SECONDS)

    assert name in {row.transactional_id for row in transactions.list_all()}
    (description,) = transactions.describe([name]).values()
    assert description.state is TransactionState.ONGOING
    answer = end_txn(transactions, name, description.producer_id, description.producer_epoch, True)
    assert answer is EndTxnAnswer.NONE

    consumer = batch_path.consumer(**names_of(config), group_id="mine")
    assert values_of(consumer.read([split("mine", start, start + 1)], stall_timeout=SECONDS)) == [text]
    evidence = GroupOffsetsEvidence(config, group_id="mine", timeout=SECONDS)
    assert evidence.committed([PARTITION])[PARTITION].metadata == text
    batch_path.close()


def view_of(config: Mapping[str, str]) -> KafkaClusterView:
    return KafkaClusterView({**config, "group.id": "mine"}, read_committed=True)


def test_the_drivers_questions_are_answered(config: dict[str, str]) -> None:
    view = view_of(config)
    assert view.topics()["mine"] == 1
    assert view.earliest([PARTITION]) == {PARTITION: 0}
    assert view.existing(["mine"]) == {"mine": 1}
    assert SinkTopics(config).partitions("mine") == 1
    offsets = PlainOffsets({**config, "group.id": "mine-plain", "enable.auto.commit": "false"}, lambda: None)
    assert offsets.send({PARTITION: 0}, "mark") == {}
    offsets.close()
    grouped = KafkaClusterView({**config, "group.id": "mine-plain"}, read_committed=True)
    assert grouped.committed([PARTITION]) == {PARTITION: 0}
    grouped.close()
    view.close()


def test_a_member_joins_its_group(authentication: str, config: dict[str, str]) -> None:
    settings = {**config, "group.id": f"mine-{authentication}", "session.timeout.ms": "6000"}
    cluster = KafkaClusterView(settings, read_committed=True)
    membership = GroupMembership(
        cluster=cluster, initializer=CommittedOffsetsInitializer(ResetStrategy.EARLIEST),
        tell=lambda *_: None, changed=lambda _: None, callback=CommitCounter(),
    )  # fmt: skip
    membership.start(None, [PARTITION])
    member = KafkaGroupMember(settings, membership=membership, options=membership_options())
    deadline = Deadline.after(SECONDS)
    try:
        while PARTITION not in membership.take():
            assert not deadline.expired, "no partition was assigned"
    finally:
        member.close()
        cluster.close()


def test_every_command_of_people(
    authentication: str, config: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client's file has librdkafka's names; a certificate is a file there."""
    prefix = f"mine-cli-{authentication}"
    name = f"{prefix}-0"
    authority = tmp_path / "ca.crt"
    authority.write_text(config["ssl.ca.pem"])
    listed = {key: value for key, value in config.items() if key not in ("ssl.ca.pem", "bootstrap.servers")}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in (listed | {"ssl.ca.location": authority}).items()))
    brokers = ["--bootstrap", config["bootstrap.servers"]]

    def answer(*command: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        status = main([*command, *brokers, "--output", "json"])
        printed = capsys.readouterr()
        assert status == 0, printed.err
        return list(json.loads(printed.out))

    batch_path = opened("native", config)
    producer = batch_path.producer(**names_of(config), transactional_id=name)
    producer.init_transactions(SECONDS)
    client = ["--config", str(file)]
    (row,) = answer("txn", "describe", name, *client)
    assert (row["transactionalId"], row["state"]) == (name, "Empty")

    open_transaction(producer)
    (row,) = answer("txn", "list", "--prefix", prefix, *client)
    assert row["state"] == "Ongoing"
    numbers = ("--producer-id", str(row["producerId"]), "--epoch", str(row["epoch"]))
    (row,) = answer("txn", "commit", name, *numbers, "--yes", *client)
    assert row["action"] == "committed"
    batch_path.close()

    batch_path = opened("native", config)
    producer = batch_path.producer(**names_of(config), transactional_id=name)
    producer.init_transactions(SECONDS)
    open_transaction(producer)
    (row,) = answer("txn", "abort", name, "--yes", *client)
    assert row["action"] == "aborted"
    assert answer("txn", "list", "--prefix", prefix, *client) == []
    batch_path.close()

    state = tmp_path / "state"
    document = CheckpointDocument(
        job_uid="uid", attempt=1, checkpoint_id=9, created_at="2026-11-21T08:00:00Z", parallelism=1, prefix="mine",
        splits=(KafkaPartitionSplit(PARTITION, 1, 1),),
    )  # fmt: skip
    FileStore(state).write(encode(document), expected="0")
    earlier = replace(document, checkpoint_id=4, splits=(KafkaPartitionSplit(PARTITION, 0, 0),))
    FolderRetainedStore.next_to(state).change({retained_key(4): encode_retained(retained(earlier))}, [])
    client = ["--state", str(state), "--command-config", str(file)]
    assert answer("checkpoint", "verify", *client) != []
    (row,) = answer("checkpoint", "restore", "4", "--yes", *client)
    assert row["records"] == 1


def open_transaction(producer: Any) -> None:
    """With a record, which the broker has."""
    producer.begin_transaction()
    producer.produce(pa.record_batch({"value": pa.array(["x"])}), topic="mine")
    assert producer.flush(SECONDS) == 1
