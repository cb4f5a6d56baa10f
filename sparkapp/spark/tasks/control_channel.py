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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import SubtaskDisconnected
from sparkapp.model.partition import TopicPartition
from sparkapp.source.watermarks.subtask_watermark import GivenWatermarks, ReachedWatermarks
from sparkapp.spark.tasks.write_task import WriteOrder

MAX_FRAME = 64 << 20
"""Bytes of a frame: 10,000 splits take one."""

BEAT_SECONDS = 1.0
SUBTASK_SILENCE_SECONDS = 10.0
"""Silence after which the driver counts a subtask as lost.

A call that keeps Python's lock for so long is silent, too: no thread of its process can send a beat.
"""
DRIVER_SILENCE_SECONDS = 30.0
"""Silence after which a subtask counts the driver as lost. Spark tries a task four times, so that is two minutes."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One checkpoint's part of a subtask.

    :param order: of the transaction. Its ranges are the splits, unless a partition is cut among subtasks.
    :param splits: read completely, in this checkpoint.
    :param watermarks: None for a job without ``source.watermarks``.
    """

    order: WriteOrder
    splits: tuple[KafkaPartitionSplit, ...]
    watermarks: GivenWatermarks | None = None


def encode_work(work: Work) -> bytes:
    """The frame of one checkpoint's work."""
    order = work.order
    body = {
        "checkpoint": order.checkpoint_id,
        "subtask": order.subtask,
        "nextFree": order.next_free,
        "settled": order.settled,
        "group": order.group_id,
        "cut": work.splits != order.ranges,
        "splits": [[*split.partition, split.start, split.stop] for split in work.splits],
        "watermarks": _given_body(work.watermarks),
    }
    return _encoded({"work": body})


def decode_work(frame: dict[str, Any]) -> Work | None:
    """Reads a frame of the engine, which is no beat; None asks the subtask to end."""
    body = frame.get("work")
    if body is None:
        return None
    splits = _splits(body["splits"])
    order = WriteOrder(
        checkpoint_id=body["checkpoint"],
        subtask=body["subtask"],
        next_free=body["nextFree"],
        settled=body["settled"],
        writes_what_it_reads=True,
        ranges=() if body["cut"] else splits,
        group_id=body["group"],
    )
    return Work(order=order, splits=splits, watermarks=_given(body["watermarks"]))


def encode_stop() -> bytes:
    """The frame that ends a subtask."""
    return _encoded({"stop": True})


def encode_beat() -> bytes:
    """The frame that says nothing but that its sender runs."""
    return _encoded({"beat": True})


def is_beat(body: dict[str, Any]) -> bool:
    """Whether a frame of either side is a beat."""
    return "beat" in body


def bound_silence(connected: socket.socket, seconds: float) -> None:
    """From now on a read or write that makes no progress for so long raises BlockingIOError.

    Called by both sides before their handshake.
    """
    bound = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)


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
        self._lost = lost
        self._sending = threading.Lock()
        self._beats = PeriodicThread(self._beat, name="beats", interval=BEAT_SECONDS)
        try:
            connected = socket.create_connection((address.host, address.port), timeout=_CONNECT_SECONDS)
            connected.settimeout(None)
            bound_silence(connected, DRIVER_SILENCE_SECONDS)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection: Connection[Any, Any] = Connection(connected.detach())
            answer_challenge(self._connection, address.key)
            deliver_challenge(self._connection, address.key)
        except (OSError, EOFError, AuthenticationError) as error:
            msg = f"the driver at {address.host}:{address.port} cannot be reached: {error!r}"
            raise SubtaskDisconnected(msg) from error
        self.send({"ready": subtask, "task": task, "wave": wave, "executor": os.environ.get(_EXECUTOR, "")})
        self._beats.start()

    def __enter__(self) -> SubtaskChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self._beats.close()
        self._connection.close()

    def receive(self) -> Work | None:
        """Blocks until the next work; None asks the subtask to end. :raises SubtaskDisconnected: as the next."""
        return decode_work(self.receive_body())

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
        body: dict[str, Any] = {"completed": checkpoint_id, "result": result} | _of(subtask)
        if watermarks is not None:
            body["watermarks"] = {"own": watermarks.own, "partitions": _rows(watermarks.partitions)}
        self.send(body)

    def failed(self, checkpoint_id: int, failure: str, *, subtask: int | None = None) -> None:
        """The subtask could not complete its part; it waits for the next work.

        :param failure: the error as Python prints it.
        """
        self.send({"failed": checkpoint_id, "failure": failure} | _of(subtask))

    def stopped(self, failure: str) -> None:
        """The subtask ends.

        :param failure: why records are not delivered, as Python prints an error; empty without a failure.
        """
        self.send({"stopped": True, "failure": failure})

    def _beat(self) -> None:
        try:
            self.send({"beat": True})
        except SubtaskDisconnected:
            self._lost()

    def send(self, body: dict[str, Any]) -> None:
        """Sends a frame; from any thread. :raises SubtaskDisconnected: the connection ended."""
        try:
            with self._sending:
                self._connection.send_bytes(_encoded(body))
        except OSError as error:
            msg = "the connection to the driver ended"
            raise SubtaskDisconnected(msg) from error


def _of(subtask: int | None) -> dict[str, int]:
    return {} if subtask is None else {"subtask": subtask}


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _given_body(given: GivenWatermarks | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {"own": given.own, "others": given.others, "partitions": _rows(given.partitions)}


def _given(body: dict[str, Any] | None) -> GivenWatermarks | None:
    if body is None:
        return None
    return GivenWatermarks(own=body["own"], others=body["others"], partitions=_partitions_of(body["partitions"]))


def decode_reached(body: dict[str, Any] | None) -> ReachedWatermarks | None:
    """Reads the watermarks of a subtask's answer; called by the engine's side."""
    if body is None:
        return None
    return ReachedWatermarks(own=body["own"], partitions=_partitions_of(body["partitions"]))


def _rows(partitions: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    return [(*partition, millis) for partition, millis in partitions.items()]


def _partitions_of(rows: Sequence[Sequence[Any]]) -> dict[TopicPartition, int]:
    return {TopicPartition(row[0], row[1]): row[2] for row in rows}


def _splits(rows: Sequence[Sequence[Any]]) -> tuple[KafkaPartitionSplit, ...]:
    return tuple(KafkaPartitionSplit(TopicPartition(row[0], row[1]), row[2], row[3]) for row in rows)
