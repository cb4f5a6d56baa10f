"""Answers of a subtask as the engine reads them, and the frames that it sends."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from sparkapp.source.watermarks.subtask_watermark import ReachedWatermarks
from sparkapp.spark.tasks.control_channel import hang_up
from sparkapp.spark.tasks.local.local_frames import SubtaskReport, decode_subtask_report
from sparkapp.spark.tasks.work import decode_reached


@dataclass(frozen=True, slots=True)
class Answer:
    """A subtask's answer.

    :param checkpoint_id: that it answers for; None for its end.
    :param result: of the write task; empty after a failure.
    :param failure: an error by :func:`sparkapp.spark.failures.printed`; empty without one.
    :param watermarks: None after a failure, and for a job without them.
    :param report: in the local pace; then everything else is empty.
    """

    subtask: int
    checkpoint_id: int | None
    result: str
    failure: str
    watermarks: ReachedWatermarks | None = None
    report: SubtaskReport | None = None

    @property
    def is_last(self) -> bool:
        """Whether the subtask ends."""
        return self.checkpoint_id is None and self.report is None


@dataclass(frozen=True, slots=True)
class Silent:
    """A subtask whose connection was silent for too long, and has been closed.

    :param task: Spark's id of the try of its task.
    """

    subtask: int
    task: int


def decode_answer(subtask: int, body: dict[str, Any]) -> Answer:
    """Reads a frame of a subtask, which is no beat."""
    checkpoint_id = body.get("completed", body.get("failed"))
    watermarks = decode_reached(body.get("watermarks"))
    result, failure = body.get("result", ""), body.get("failure", "")
    return Answer(subtask, checkpoint_id, result, failure, watermarks, decode_subtask_report(body))


def send(connection: Connection[Any, Any] | None, frame: bytes) -> None:
    """A subtask that is gone is started again by Spark, and then it is given the work."""
    if connection is None:
        return
    try:
        connection.send_bytes(frame)
    except OSError:
        # A part of the frame may have been sent, so no other may follow. The connection's reader finds out why.
        hang_up(connection, socket.SHUT_WR)
