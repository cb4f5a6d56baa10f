"""The connections of subtasks, which a test makes and loses; for units of the continuous engine's driver."""

from __future__ import annotations

import threading

from sparkapp.spark.engine.continuous.adoptions import SubtaskLosses
from sparkapp.spark.tasks.control_frames import Answer, InstanceOrder, Work


class FakeControlServer:
    """In place of :class:`sparkapp.spark.engine.continuous.control_server.ControlServer`. The answers are the test's.

    Work and orders are recorded. As at the real server, an order of the local pace is lost without a connection.

    :ivar connected: subtasks with a connection. :ivar ready: those that were not asked to end.
    :ivar writers: those that write, or whose work another writes. :ivar long_lost: those without a connection for long.
    :ivar answers: what the driver hears next. :ivar woken: set by :meth:`wake`.
    :ivar has_been_connected: whether a subtask has ever had a connection.
    """

    def __init__(self, parallelism: int = 2) -> None:
        self.connected = set(range(parallelism))
        self.ready = set(range(parallelism))
        self.writers = set(range(parallelism))
        self.long_lost: set[int] = set()
        self.losses = SubtaskLosses()
        self.answers: list[Answer] = []
        self.given: list[Work] = []
        self.barriers: list[tuple[int, dict[int, Work]]] = []
        self.orders: list[tuple[int, InstanceOrder]] = []
        self.woken = threading.Event()
        self.has_been_connected = True

    def give(self, work: dict[int, Work]) -> None:
        self.given += work.values()

    def withdraw(self) -> bool:
        """As at the real server: only as long as no subtask has ever been connected."""
        has_work = bool(self.given) and not self.has_been_connected
        if has_work:
            self.given.clear()
        return has_work

    def barrier(self, checkpoint_id: int, work: dict[int, Work]) -> None:
        self.barriers.append((checkpoint_id, work))

    def tell(self, subtask: int, order: InstanceOrder) -> None:
        if subtask in self.connected:
            self.orders.append((subtask, order))

    def lost(self, _seconds: float) -> set[int]:
        return self.long_lost

    def answer(self, _seconds: float) -> Answer | None:
        return self.answers.pop(0) if self.answers else None

    def wake(self) -> None:
        self.woken.set()
