"""What the engine hears of a subtask's silence, and the frames that it sends."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from sparkapp.spark.tasks.control_channel import hang_up


@dataclass(frozen=True, slots=True)
class Silent:
    """A subtask whose connection was silent for too long, and has been closed.

    :param task: Spark's id of the try of its task.
    """

    subtask: int
    task: int


def send(connection: Connection[Any, Any] | None, frame: bytes) -> None:
    """A subtask that is gone is started again by Spark, and then it is given the work."""
    if connection is None:
        return
    try:
        connection.send_bytes(frame)
    except OSError:
        # A part of the frame may have been sent, so no other may follow. The connection's reader finds out why.
        hang_up(connection, socket.SHUT_WR)
