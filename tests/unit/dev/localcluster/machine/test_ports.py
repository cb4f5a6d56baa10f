"""Ports that are asked for before somebody listens at them, and who it is that listens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from localcluster.kafka import probe as kafka_probe
from localcluster.machine.ports import free_ports


@pytest.fixture
def own_range(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Gives this test a range of ports that no other program is given."""

    def make(size: int) -> list[int]:
        ports = free_ports(size)
        monkeypatch.setattr("localcluster.machine.ports.RANGE", ports)
        return ports

    return make


def test_nobody_is_given_what_another_one_was(own_range: Callable[[int], list[int]], tmp_path: Path) -> None:
    ports = own_range(300)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(free_ports, 3, counter=tmp_path / "counter") for _ in range(100)]
    assert sorted(port for each in asked for port in each.result()) == sorted(ports)
    assert len(set(ports)) == 300


def test_the_range_begins_again_and_what_is_taken_is_left_out(
    own_range: Callable[[int], list[int]], tmp_path: Path
) -> None:
    first, second, third, fourth = own_range(4)
    counter = tmp_path / "counter"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", second))
        taken.listen()
        assert [free_ports(1, counter=counter) for _ in range(4)] == [[first], [third], [fourth], [first]]
        with pytest.raises(OSError, match="fewer than 4"):
            free_ports(4, counter=counter)


def test_a_counter_that_is_no_number_begins_at_zero(own_range: Callable[[int], list[int]], tmp_path: Path) -> None:
    first, _ = own_range(2)
    (tmp_path / "counter").write_text("nonsense")
    assert free_ports(1, counter=tmp_path / "counter") == [first]
    (tmp_path / "link").symlink_to(tmp_path / "counter")
    with pytest.raises(OSError, match="link"):
        free_ports(1, counter=tmp_path / "link")


def test_processes_with_temporary_folders_of_their_own_share_the_ports(tmp_path: Path) -> None:
    code = "from localcluster.machine.ports import free_ports; print(free_ports(1))"
    given = []
    for name in ("this", "that"):
        (folder := tmp_path / name).mkdir()
        environment = {**os.environ, "TMPDIR": str(folder)}
        given.append(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True))
    assert given[0] != given[1]


@pytest.mark.parametrize(
    ("reply", "is_broker"),
    [
        pytest.param(lambda heard: b"\x00\x00\x00\x0a" + heard[8:12] + bytes(6), True, id="a broker"),
        pytest.param(lambda heard: heard, False, id="a connection with itself"),
        pytest.param(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", False, id="an HTTP server"),
        pytest.param(lambda _: b"", False, id="nothing is said"),
    ],
)
def test_a_server_that_answers_something_else_is_no_broker(reply: Callable[[bytes], bytes], is_broker: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(reply(connection.recv(100)))

        thread = threading.Thread(target=serve)
        thread.start()
        assert kafka_probe.answers("127.0.0.1", server.getsockname()[1]) is is_broker
        thread.join()
