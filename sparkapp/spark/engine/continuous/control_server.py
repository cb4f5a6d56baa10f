"""The engine's side of the connections to its subtasks."""

from __future__ import annotations

import json
import logging
import os
import queue
import secrets
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from sparkapp.source.watermarks.subtask_watermark import ReachedWatermarks
from sparkapp.spark.tasks.control_channel import MAX_FRAME, Address, Work, decode_reached, encode_stop, encode_work

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A subtask's answer.

    :param checkpoint_id: that it answers for; None for its end.
    :param result: of the write task; empty after a failure.
    :param failure: an error as Python prints it; empty without one.
    :param watermarks: None after a failure, and for a job without them.
    """

    subtask: int
    checkpoint_id: int | None
    result: str
    failure: str
    watermarks: ReachedWatermarks | None = None


class ControlServer:
    """Gives work to the subtasks and collects their answers. Thread-safe.

    A subtask has one connection: its newest. A task that Spark starts again connects again and is given the work that
    its predecessor did not answer. What an older connection says is ignored: the new task's producer fences the old.

    :param host: address that executors connect to; any free port.
    """

    def __init__(self, host: str) -> None:
        self._key = secrets.token_bytes(32)
        self._listener = socket.create_server((host, 0), family=_family(host), backlog=128)
        self._lock = threading.Lock()
        self._connections: dict[int, Connection[Any, Any]] = {}
        self._unanswered: dict[int, bytes] = {}
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._is_stopping = self._is_closed = False
        self.address = Address(host, self._listener.getsockname()[1], self._key)
        threading.Thread(target=self._accept, name="subtasks", daemon=True).start()

    def give(self, work: Mapping[int, Work]) -> None:
        """Gives each subtask its work, now or as soon as it connects; called once a checkpoint."""
        self._give({subtask: encode_work(part) for subtask, part in work.items()})

    def stop(self) -> set[int]:
        """Asks every subtask to end, now or as soon as it connects; returns those that are connected.

        Each of them answers.
        """
        with self._lock:
            self._is_stopping = True
            connected = set(self._connections)
        self._give(dict.fromkeys(connected, encode_stop()))
        return connected

    @property
    def has_answers(self) -> bool:
        """Whether :meth:`answer` returns at once."""
        return not self._answers.empty()

    @property
    def connected(self) -> set[int]:
        """The subtasks whose connections stand. All that another subtask has sent can be had by :meth:`answer`."""
        with self._lock:
            return set(self._connections)

    def answer(self, seconds: float) -> Answer | None:
        """The next answer; None if there is none within the time, or after :meth:`wake`."""
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """Ends a wait for an answer; from any thread."""
        self._answers.put(None)

    def close(self) -> None:
        """Ends all connections."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        with self._lock:
            for connection in self._connections.values():
                _hang_up(connection)

    def _give(self, frames: Mapping[int, bytes]) -> None:
        with self._lock:
            self._unanswered.update(frames)
            for subtask, frame in frames.items():
                self._send(subtask, frame)

    def _send(self, subtask: int, frame: bytes) -> None:
        connection = self._connections.get(subtask)
        if connection is not None:
            # A subtask that is gone is started again by Spark, and then it is given the work.
            with suppress(OSError):
                connection.send_bytes(frame)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection: Connection[Any, Any] = Connection(accepted.detach())
            threading.Thread(target=self._serve, args=(connection,), name="subtask", daemon=True).start()

    def _serve(self, connection: Connection[Any, Any]) -> None:
        subtask = None
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            subtask = int(json.loads(connection.recv_bytes(MAX_FRAME))["ready"])
            self._connected(subtask, connection)
            while True:
                body = json.loads(connection.recv_bytes(MAX_FRAME))
                self._answered(subtask, connection, body)
        except AuthenticationError as error:
            LOG.warning("a connection without the attempt's key was refused: %s", error)
        except (EOFError, OSError):
            if subtask is not None and not self._is_closed:
                LOG.info("subtask %d is disconnected", subtask)
        except (ValueError, KeyError, TypeError):
            LOG.exception("subtask %s sent a frame that cannot be read", subtask)
        finally:
            self._disconnected(subtask, connection)

    def _connected(self, subtask: int, connection: Connection[Any, Any]) -> None:
        with self._lock:
            replaced = self._connections.get(subtask)
            self._connections[subtask] = connection
            if replaced is not None:
                _hang_up(replaced)
            frame = self._unanswered.get(subtask, encode_stop() if self._is_stopping else None)
            if frame is not None:
                self._send(subtask, frame)

    def _answered(self, subtask: int, connection: Connection[Any, Any], body: dict[str, Any]) -> None:
        with self._lock:
            if self._connections.get(subtask) is not connection:
                return
            self._unanswered.pop(subtask, None)
        checkpoint_id = body.get("completed", body.get("failed"))
        watermarks = decode_reached(body.get("watermarks"))
        self._answers.put(Answer(subtask, checkpoint_id, body.get("result", ""), body.get("failure", ""), watermarks))

    def _disconnected(self, subtask: int | None, connection: Connection[Any, Any]) -> None:
        with self._lock:
            if subtask is not None and self._connections.get(subtask) is connection:
                del self._connections[subtask]
            connection.close()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _hang_up(connection: Connection[Any, Any]) -> None:
    """Ends a connection that another thread reads: that thread closes it. A close alone would not wake it."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as shared:
        shared.shutdown(socket.SHUT_RDWR)
