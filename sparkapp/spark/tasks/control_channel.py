"""The connection between the continuous engine and one of its subtasks: work down, results up.

Frames are JSON over TCP. Both sides prove that they know the attempt's key before the first frame. Spark carries the
key to the subtasks within their task.

Both sides send a beat every second. So silence means that the other process is frozen, or the network cut (ADR 55).
The kernel counts the silence, in ``SO_RCVTIMEO``. What came while this side was frozen itself is read
first, so it is no silence of the other side.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.model.encoding.json_parts import decode_part, encode_part
from sparkapp.model.errors import SubtaskDisconnected
from sparkapp.source.watermarks.subtask_watermark import ReachedWatermarks
from sparkapp.spark.tasks.control_frames import Answer, Ready, SubtaskReport, encoded, is_beat

MAX_FRAME = 64 << 20
"""Bytes of a frame: 10,000 splits take one."""

BEAT_SECONDS = 1.0
SUBTASK_SILENCE_SECONDS = 10.0
"""Silence after which the driver counts a subtask as lost.

A call that keeps Python's lock for so long is silent, too: no thread of its process can send a beat.
"""
DRIVER_SILENCE_SECONDS = 30.0
"""Silence after which a subtask counts the driver as lost. Spark then starts the task again."""

_CONNECT_SECONDS = 20.0
_EXECUTOR = "SPARK_EXECUTOR_ID"
"""Spark sets it in the pods of executors, and Python workers inherit it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the engine listens, and the attempt's key; pickled into the tasks of the subtasks."""

    host: str
    port: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Wave:
    """Subtasks that are tasks of the same Spark job: those of a start, or those that a rescale in place adds.

    :param number: from 0.
    """

    number: int
    first: int
    count: int


def receive_ready(connection: Connection[Any, Any], key: bytes) -> Ready:
    """The driver's handshake, and the task's first frame.

    :raises AuthenticationError: the other side has no key. :raises OSError: and EOFError: the connection ended.
    :raises ValueError: and KeyError, TypeError: the frame cannot be read.
    """
    deliver_challenge(connection, key)
    answer_challenge(connection, key)
    return decode_part(Ready, json.loads(connection.recv_bytes(MAX_FRAME)), "")


def bound_silence(connected: socket.socket, seconds: float) -> None:
    """From now on a read or write that makes no progress for so long raises BlockingIOError.

    Called by both sides before their handshake.
    """
    bound = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)


def connection_of(connected: socket.socket, silence: float) -> Connection[Any, Any]:
    """The connection of an open socket, of either side; it takes the socket over.

    :param silence: see :func:`bound_silence`.
    """
    connected.settimeout(None)
    bound_silence(connected, silence)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connected.detach())


def hang_up(connection: Connection[Any, Any] | socket.socket, what: int = socket.SHUT_RDWR) -> None:
    """Ends a connection or listener that another thread reads, and that wait. A close alone would not wake it."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as shared:
        shared.shutdown(what)


class SubtaskChannel:
    """The subtask's side. A context manager, which closes the connection.

    :param address: of the engine.
    :param subtask: that this task stands for.
    :param task: Spark's id of this try of the task, by which the driver can end it.
    :param wave: of the task; the driver ends tasks of a wave that it does not expect any more.
    :param lost: called in the thread of the beats when the connection has ended: nobody waits for the answer any more.
    :raises SubtaskDisconnected: nobody answers, or somebody without the key.
    """

    def __init__(
        self, address: Address, *, subtask: int, task: int, wave: int = 0, lost: Callable[[], None] = lambda: None
    ) -> None:
        self._subtask = subtask
        self._lost = lost
        self._sending = threading.Lock()
        self._beats = PeriodicThread(self._beat, name="beats", interval=BEAT_SECONDS)
        try:
            connected = socket.create_connection((address.host, address.port), timeout=_CONNECT_SECONDS)
            self._connection = connection_of(connected, DRIVER_SILENCE_SECONDS)
            answer_challenge(self._connection, address.key)
            deliver_challenge(self._connection, address.key)
        except (OSError, EOFError, AuthenticationError) as error:
            msg = f"the driver at {address.host}:{address.port} cannot be reached: {error!r}"
            raise SubtaskDisconnected(msg) from error
        self.send(encode_part(Ready(subtask=subtask, task=task, wave=wave, executor=os.environ.get(_EXECUTOR, ""))))
        self._beats.start()

    def __enter__(self) -> SubtaskChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self._beats.close()
        hang_up(self._connection)  # another thread may wait for a frame: a close alone would not end the connection
        self._connection.close()

    def receive_body(self) -> dict[str, Any]:
        """Blocks until the next frame of the engine that is no beat.

        :raises SubtaskDisconnected: the connection ended, or the driver is silent.
        """
        try:
            while True:
                frame: dict[str, Any] = json.loads(self._connection.recv_bytes(MAX_FRAME))
                if not is_beat(frame):
                    return frame
        except BlockingIOError as error:
            msg = f"the driver has been silent for {DRIVER_SILENCE_SECONDS:g} s"
            raise SubtaskDisconnected(msg) from error
        except (EOFError, OSError) as error:
            msg = "the connection to the driver ended"
            raise SubtaskDisconnected(msg) from error

    def completed(
        self,
        checkpoint_id: int,
        result: str,
        watermarks: ReachedWatermarks | None = None,
        *,
        subtask: int | None = None,
    ) -> None:
        """The subtask has pre-committed.

        :param subtask: whose work it was, if it was another's.
        :param result: of :func:`sparkapp.spark.tasks.write_task.encode_result`.
        :param watermarks: after the checkpoint; None for a job without them.
        """
        self._answer(Answer(self._of(subtask), checkpoint_id, result, watermarks=watermarks))

    def failed(self, checkpoint_id: int, failure: str, *, subtask: int | None = None) -> None:
        """The subtask could not complete its part; it waits for the next work.

        :param failure: by :func:`sparkapp.spark.failures.printed`.
        """
        self._answer(Answer(self._of(subtask), checkpoint_id, failure=failure))

    def stopped(self, failure: str) -> None:
        """The subtask ends.

        :param failure: why records are not delivered, as in :meth:`failed`; empty without a failure.
        """
        self._answer(Answer(self._subtask, failure=failure))

    def report(self, report: SubtaskReport) -> None:
        """News of a subtask of the local pace."""
        self._answer(Answer(self._subtask, report=report))

    def _answer(self, answer: Answer) -> None:
        self.send(encode_part(answer))

    def _of(self, subtask: int | None) -> int:
        return self._subtask if subtask is None else subtask

    def _beat(self) -> None:
        try:
            self.send({"beat": True})
        except SubtaskDisconnected:
            self._lost()

    def send(self, body: dict[str, Any]) -> None:
        """Sends a frame; from any thread. :raises SubtaskDisconnected: the connection ended."""
        try:
            with self._sending:
                self._connection.send_bytes(encoded(body))
        except OSError as error:
            msg = "the connection to the driver ended"
            raise SubtaskDisconnected(msg) from error
