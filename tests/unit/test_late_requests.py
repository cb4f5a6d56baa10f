"""The proxy that withholds requests, where a connection ends in the middle of a message."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.support.kafka.late_requests import LateRequests

SECONDS = 20
REQUEST = bytes([0, 0, 0, 8, 0, 18, 0, 0, 0, 0, 0, 7])


@pytest.mark.parametrize("sent", [b"\0\0", b"\0\0\0\x08", b"\0\0\0\x08\0\0"], ids=["in-length", "behind-it", "in-body"])
def test_a_broker_that_dies_within_an_answer_ends_the_connection(sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        proxy = LateRequests(f"127.0.0.1:{broker.getsockname()[1]}")
        before = set(threading.enumerate())
        with socket.create_connection(("127.0.0.1", int(proxy.address.rpartition(":")[2])), timeout=SECONDS) as client:
            broker.settimeout(SECONDS)
            accepted, _ = broker.accept()
            with accepted:
                client.sendall(REQUEST)
                assert accepted.recv(len(REQUEST), socket.MSG_WAITALL) == REQUEST
                accepted.sendall(sent)
            assert client.recv(1) == b""
        carriers = set(threading.enumerate()) - before
        proxy.close()
        for carrier in carriers:
            carrier.join(SECONDS)
            assert not carrier.is_alive()


def test_a_client_that_dies_within_a_request_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        proxy = LateRequests(f"127.0.0.1:{broker.getsockname()[1]}")
        with socket.create_connection(("127.0.0.1", int(proxy.address.rpartition(":")[2])), timeout=SECONDS) as client:
            broker.settimeout(SECONDS)
            accepted, _ = broker.accept()
            client.sendall(REQUEST[:4])
            client.shutdown(socket.SHUT_WR)
            with accepted:
                accepted.settimeout(SECONDS)
                assert accepted.recv(1) == b""
        proxy.close()
        assert not proxy.seen
