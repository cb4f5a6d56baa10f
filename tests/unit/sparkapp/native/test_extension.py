"""The extension by itself: misuse is an exception, never a crash."""

from __future__ import annotations

import os
import threading

import pytest

_kafka_arrow = pytest.importorskip("sparkapp.native._kafka_arrow")


@pytest.fixture(autouse=True)
def _loaded() -> None:
    from sparkapp.native import librdkafka

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
    with pytest.raises(IndexError, match="no lane 3"):
        consumer.begin([(3, 10)])
    with pytest.raises(IndexError, match="no lane -1"):
        consumer.unassign([-1])
    with pytest.raises(TypeError):
        consumer.assign([("topic", "zero", 0)])
    with pytest.raises(TypeError):
        consumer.assign("topic")
    assert consumer.gather(0xFF, 10, 10, 0) == (0, [], False, 0)
    assert consumer.positions() == []
    consumer.close()


def test_a_topic_that_cannot_be_named() -> None:
    import pyarrow as pa

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
    waiting = threading.Thread(target=consumer.gather, args=(0, 1, 1, 300))
    waiting.start()
    refused = 0
    while waiting.is_alive():
        try:
            consumer.gather(0, 1, 1, 0)
        except RuntimeError as error:
            refused += "another thread" in str(error)
    waiting.join()
    assert refused
    consumer.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_leaves_the_client_alone() -> None:
    consumer = _kafka_arrow.Consumer({"group.id": "g"})
    child = os.fork()
    if child == 0:
        try:
            consumer.gather(0, 1, 1, 0)
        except RuntimeError as error:
            told = "forked" in str(error)
            del consumer  # would wait for threads that the child has not
            os._exit(0 if told else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    consumer.close()
