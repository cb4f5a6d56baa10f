"""When the transactions of lost subtasks are ended."""

from __future__ import annotations

from collections.abc import Collection

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.sink.producers.lost_producers import LostProducers


class Rig:
    """Fences that succeed, but for the first ``failures``."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.fenced: list[list[str]] = []
        self.now = 100.0
        self.lost = LostProducers(self.fence, clock=lambda: self.now)

    def fence(self, ids: Collection[str]) -> None:
        self.fenced.append(list(ids))
        if len(self.fenced) <= self.failures:
            msg = "no broker"
            raise KafkaUnreachable(msg)

    def look(self, **lost: list[str]) -> None:
        """Returns when the fence that it began has ended."""
        self.lost.look({int(name.removeprefix("subtask_")): ids for name, ids in lost.items()})
        deadline = Deadline.after(10)
        while self.lost._call is not None and not self.lost._call.done():
            assert not deadline.expired


def test_a_lost_subtask_is_fenced_once_a_loss() -> None:
    rig = Rig()
    rig.look()
    rig.look(subtask_1=["p-1"])
    rig.look(subtask_1=["p-1"])
    assert rig.fenced == [["p-1"]]
    rig.look(subtask_0=["p-0", "p-2"], subtask_1=["p-1"])
    assert rig.fenced == [["p-1"], ["p-0", "p-2"]]
    rig.look()
    rig.look(subtask_1=["p-1"])
    assert rig.fenced[2:] == [["p-1"]], "it was back, and is lost again"


def test_a_subtask_that_can_have_nothing_open_is_not_fenced() -> None:
    rig = Rig()
    rig.look(subtask_1=[])
    assert rig.fenced == []
    rig.look(subtask_1=["p-1"])
    assert rig.fenced == [["p-1"]], "its work came while it was lost"


def test_a_fence_that_failed_is_tried_again_after_a_pause() -> None:
    rig = Rig(failures=1)
    rig.look(subtask_1=["p-1"])
    rig.look(subtask_1=["p-1"])
    assert rig.fenced == [["p-1"]]
    rig.now += 30
    rig.look(subtask_1=["p-1"])
    rig.look(subtask_1=["p-1"])
    assert rig.fenced == [["p-1"], ["p-1"]]
