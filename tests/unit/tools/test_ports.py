"""Ports that are asked for before somebody listens at them."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from localcluster import kafka_probe
from localcluster.ports import RANGE, free_ports


def picked_by_the_system() -> range:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    return range(low, high + 1)


def test_nobody_is_given_what_another_one_was(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(free_ports, 3, counter=tmp_path / "counter") for _ in range(100)]
    ports = [port for one in asked for port in one.result()]
    assert len(set(ports)) == 300
    assert set(ports) <= set(RANGE)


def test_the_range_begins_again_and_what_is_taken_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = free_ports(1, counter=tmp_path / "counter")
    monkeypatch.setattr("localcluster.ports.RANGE", range(first, first + 4))
    counter = tmp_path / "small"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        assert [free_ports(1, counter=counter) for _ in range(4)] == [
            [first], [first + 2], [first + 3], [first],
        ]  # fmt: skip
        with pytest.raises(OSError, match="fewer than 4"):
            free_ports(4, counter=counter)


def test_a_counter_that_is_no_number_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("nonsense")
    assert free_ports(1, counter=tmp_path / "counter")[0] in RANGE
    (tmp_path / "link").symlink_to(tmp_path / "counter")
    with pytest.raises(OSError, match="link"):
        free_ports(1, counter=tmp_path / "link")


def test_the_system_does_not_pick_from_the_range() -> None:
    picked = picked_by_the_system()
    if picked.start < RANGE[-1]:
        pytest.skip("this machine's settings let it pick such ports: /proc/sys/net/ipv4/ip_local_port_range")
    assert not set(RANGE) & set(picked)


@pytest.mark.parametrize(
    ("answer", "is_broker"),
    [(None, False), (b"HTTP/1.1 400 Bad Request\r\n\r\n", False), (b"\x00\x00\x00\x0a", True), (b"", False)],
)
def test_whoever_answers_something_else_is_no_broker(answer: bytes | None, is_broker: bool) -> None:
    """None says back what it hears, as a connection does whose two ends met at one port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                heard = connection.recv(100)
                if is_broker:  # the length, the request's correlation id, and no error
                    assert answer is not None
                    connection.sendall(answer + heard[8:12] + bytes(6))
                else:
                    connection.sendall(heard if answer is None else answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert kafka_probe.answers("127.0.0.1", server.getsockname()[1]) is is_broker
        thread.join()
