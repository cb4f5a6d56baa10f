"""The extension by itself: misuse is an exception, never a crash."""

from __future__ import annotations

import gc
import os
import threading
import time

import pyarrow as pa
import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.dataplane import reader
from sparkapp.dataplane.native.consumer import NativeConsumer
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from tests.support.patience import PATIENCE

_kafka_arrow = pytest.importorskip("sparkapp.dataplane.native._kafka_arrow")


@pytest.fixture(autouse=True)
def _loaded() -> None:
    from sparkapp.dataplane.native import librdkafka

    librdkafka.load()


def test_a_library_that_is_none() -> None:
    # Once loaded, further calls do nothing: only a process of its own could load something else.
    _kafka_arrow.load("/nowhere/librdkafka.so")


def test_configurations_that_are_refused() -> None:
    with pytest.raises(_kafka_arrow.BadConfiguration, match=r"no\.such"):
        _kafka_arrow.Consumer({"no.such": "1"})
    with pytest.raises(_kafka_arrow.BadConfiguration):
        _kafka_arrow.Producer({"transactional.id": "x", "enable.idempotence": "false"})
    with pytest.raises(TypeError):
        _kafka_arrow.Consumer({"linger.ms": 5})
    with pytest.raises(TypeError):
        _kafka_arrow.Consumer([])


def test_arguments_that_make_no_sense() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    with pytest.raises(IndexError, match="no partition queue 3"):
        consumer.begin([(3, 10)])
    with pytest.raises(IndexError, match="no partition queue -1"):
        consumer.unassign([-1])
    with pytest.raises(TypeError):
        consumer.assign([("topic", "zero", 0)])
    with pytest.raises(TypeError):
        consumer.assign("topic")
    assert consumer.gather(0xFF, 10, 10, 0, 0, False) == (0, [], False, 0)
    assert consumer.positions() == []
    consumer.close()


def test_a_topic_that_cannot_be_named() -> None:
    producer = _kafka_arrow.Producer({})
    for name in ("", "x" * 250, "a\0b"):
        pa.array([b"v"])._export_to_c(producer.slots()[0])
        with pytest.raises(_kafka_arrow.Failure, match="no topic can be named"):
            producer.produce(name, 1, 0, 0, 0)
    assert producer.take_deliveries()[:2] == (0, 3)
    producer.close()


def test_closed_clients_refuse_and_close_again() -> None:
    for client in (_kafka_arrow.Consumer({"group.id": "g"}), _kafka_arrow.Producer({})):
        client.close()
        client.close()
        assert client.__class__.__name__ in repr(client)
    with pytest.raises(RuntimeError, match="closed"):
        client.flush(0)


def test_a_client_in_use_by_another_thread() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    consumer.begin([(number, 1) for number in consumer.assign([("t", 0, 0)])])
    waiting = threading.Thread(target=consumer.gather, args=(0, 1, 1, 300, 0, False))
    waiting.start()
    refused = 0
    while waiting.is_alive():
        try:
            consumer.gather(0, 1, 1, 0, 0, False)
        except RuntimeError as error:
            refused += "another thread" in str(error)
    waiting.join()
    assert refused
    consumer.close()


def test_a_wait_for_records_can_be_interrupted_by_another_thread() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    consumer.begin([(number, 1) for number in consumer.assign([("t", 0, 0)])])
    hours = 10_000_000
    waiting = threading.Thread(target=consumer.gather, args=(0, 1, 1, hours, hours, False))
    waiting.start()
    consumer.interrupt()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert consumer.gather(0, 1, 1, hours, hours, False) == (0, [], False, 1), "so is every later wait"
    consumer.close()
    consumer.interrupt()


def test_a_wait_for_records_can_be_ended_once_by_another_thread() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    consumer.begin([(number, 1) for number in consumer.assign([("t", 0, 0)])])
    hours = 10_000_000
    waiting = threading.Thread(target=consumer.gather, args=(0, 1, 1, hours, hours, False))
    waiting.start()
    consumer.wake()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    waits = threading.Thread(target=consumer.gather, args=(0, 1, 1, hours, hours, False))
    waits.start()
    waits.join(0.2)
    assert waits.is_alive(), "the next one waits"
    consumer.wake()
    waits.join(PATIENCE)
    consumer.wake()
    assert consumer.gather(0, 1, 1, hours, hours, False) == (0, [], False, 1), "a call before the wait counts, too"
    consumer.close()
    consumer.wake()


def test_endless_reads_that_follow_each_other_look_at_their_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint that is open begins such a read."""
    monkeypatch.setattr(reader, "_LOOK_AFTER", 1.0)
    consumer = NativeConsumer({"group.id": "g"})
    looks: list[bool] = []
    monkeypatch.setattr(consumer, "_look", lambda: looks.append(consumer._has_moved))
    deadline = Deadline.after(30.0)
    while not looks and not deadline.expired:
        consumer.follow([KafkaPartitionSplit(TopicPartition("t", 0), 0, 9)])
        assert consumer.next_batch(wait_millis=1, linger_millis=1, max_rows=1) is None
    assert looks
    consumer.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_leaves_the_client_alone() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    child = os.fork()
    if child == 0:
        try:
            consumer.gather(0, 1, 1, 0, 0, False)
        except RuntimeError as error:
            errors = "forked" in str(error)
            del consumer  # would wait for threads that the child has not
            os._exit(0 if errors else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    consumer.close()


def test_a_closed_consumer_has_no_positions() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    consumer.begin([(number, 9) for number in consumer.assign([("t", 0, 5)])])
    assert consumer.positions() == [("t", 0, 5, 9)]
    consumer.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        consumer.positions()


def test_a_consumer_without_a_group_has_no_queue() -> None:
    with pytest.raises(_kafka_arrow.BadConfiguration, match=r"group\.id"):
        _kafka_arrow.Consumer({})


def test_a_partition_without_a_queue() -> None:
    topic = "x" * 600  # librdkafka takes no longer name than 512
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    with pytest.raises(_kafka_arrow.Failure, match=r"no queue of partition"):
        consumer.assign([("t", 0, 0), (topic, 0, 0)])
    assert consumer.assign([("t", 0, 0)]) == [0]
    consumer.close()


def test_a_refused_assignment_leaves_no_partition_queue() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    assert consumer.assign([("t", 0, 0)]) == [0]
    for refused in ([("t", 1, 0), ("t", 0, 7)], [("t", 1, 0), ("t", "zero", 0)], [("t", 1, 0), ("t", 2)]):
        with pytest.raises((_kafka_arrow.Failure, TypeError)):
            consumer.assign(refused)
        with pytest.raises(IndexError, match="no partition queue 1"):
            consumer.begin([(1, 5)])
    assert consumer.assign([("t", 1, 0)]) == [1]
    consumer.begin([(0, 3), (1, 5)])
    assert consumer.positions() == [("t", 0, 0, 3), ("t", 1, 0, 5)]
    consumer.close()


def test_a_refused_unassignment_leaves_every_partition_queue() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    assert consumer.assign([("t", 0, 0), ("t", 1, 0)]) == [0, 1]
    for refused in ([0, 7], [0, 0], [0, "1"], [0, 1 << 40]):
        with pytest.raises((IndexError, TypeError, _kafka_arrow.Failure)):
            consumer.unassign(refused)
        consumer.begin([(0, 3), (1, 5)])
    consumer.unassign([1, 0])
    consumer.close()


def test_errors_of_two_clients_are_not_mixed_where_python_switches_between_them() -> None:
    """The collector may run in whatever allocates, and a finalizer lets other threads and clients run."""
    settings = {"enable.sparse.connections": "false", "log.queue": "true"}
    ports = {"first": range(1, 6), "second": range(11, 16)}
    deadline = Deadline.after(60)
    between: list[tuple[int, str, int]] = []
    clients: list[_kafka_arrow.Producer] = []

    class Switch:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            between.extend(clients[1].take_errors())

    errors: list[tuple[int, str, int]] = []
    threshold = gc.get_threshold()
    while len(errors) < 3 or not between:
        assert not deadline.expired, (errors, between)
        gc.collect()  # no earlier switch is left
        while clients:
            clients.pop().close()
        # A client reports the error of each broker once. Errors that arrive after the first look need new clients.
        clients += [
            _kafka_arrow.Producer({**settings, "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in some)})
            for some in ports.values()
        ]
        time.sleep(0.5)
        between.clear()
        Switch()
        gc.set_threshold(1)
        errors = clients[0].take_errors()
        gc.set_threshold(*threshold)
    assert [text for _, text, _ in errors if any(f"127.0.0.1:{port}/" in text for port in ports["second"])] == []
    assert [text for _, text, _ in between if any(f"127.0.0.1:{port}/" in text for port in ports["first"])] == []
    for client in clients:
        client.close()


def test_reports_and_slots_are_not_touched_while_a_call_runs() -> None:
    producer = _kafka_arrow.Producer({"bootstrap.servers": "127.0.0.1:1"})
    pa.array([b"v"])._export_to_c(producer.slots()[0])
    producer.produce("topic", 1, 0, 0, 0)
    waiting = threading.Thread(target=producer.flush, args=(300,))
    waiting.start()
    refused = dict.fromkeys(("take_deliveries", "take_partitions", "slots"), 0)
    while waiting.is_alive():
        for name in refused:
            try:
                getattr(producer, name)()
            except RuntimeError as error:
                refused[name] += "another thread" in str(error)
    waiting.join()
    assert all(refused.values()), refused
    producer.close()
    for name in refused:
        with pytest.raises(RuntimeError, match="closed"):
            getattr(producer, name)()


WITH_TOKENS = {
    "group.id": "g", "bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": "where", "log_level": "0",
}  # fmt: skip


def settings_of(kind: str) -> dict[str, str]:
    return {name: value for name, value in WITH_TOKENS.items() if kind == "Consumer" or name != "group.id"}


@pytest.mark.parametrize("kind", ["Consumer", "Producer"])
def test_a_client_asks_for_a_token_and_again_before_it_expires(kind: str) -> None:
    asked: list[str] = []

    def token_of(config: str) -> tuple[str, float, str]:
        asked.append(config)
        return f"token-{len(asked)}", time.time() + 1.5, "job"

    client = getattr(_kafka_arrow, kind)(settings_of(kind), token_of)
    deadline = Deadline.after(60)
    while len(asked) < 3:
        assert not deadline.expired, "no token was asked for again"
        client.take_errors()
        time.sleep(0.05)
    client.close()
    assert set(asked) == {"where"}


@pytest.mark.parametrize("kind", ["Consumer", "Producer"])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "no such file"),
        (("token",), "function takes"),
        (("a\0b", 1e12, "job"), "null"),
        (("t", 1.0, "job"), "unexpired"),
    ],
    ids=["an error", "too few", "a null", "expired"],
)
def test_a_token_that_cannot_be_had_is_an_error_of_the_client(kind: str, answer: object, text: str) -> None:
    def token_of(config: str) -> object:
        if answer is None:
            raise OSError(f"{config}: no such file")
        return answer

    client = getattr(_kafka_arrow, kind)(settings_of(kind), token_of)
    if kind == "Consumer":
        client.begin([(number, 1) for number in client.assign([("t", 0, 0)])])
    deadline, found = Deadline.after(60), ""
    while text not in found:
        assert not deadline.expired, found
        if kind == "Consumer":
            client.gather(0xFF, 1, 1, 50, 0, False)
        found += "".join(said for code, said, _ in client.take_errors() if code == -169)
        time.sleep(0.02)
    client.close()
