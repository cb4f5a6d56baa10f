"""When the transactions of lost subtasks are ended."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointError,
    CheckpointForeign,
    CheckpointStoreUnavailable,
    KafkaUnreachable,
)
from sparkapp.sink.ending.lost_producers import LostProducers


class Rig:
    """Fences that succeed, but for the first.

    :param failures: of the first fences.
    """

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.fenced: list[list[str]] = []
        self.now = 100.0
        self.lost = LostProducers(self.fence, clock=lambda: self.now)

    def fence(self, ids: Collection[str]) -> None:
        self.fenced.append(sorted(ids))
        if self.failures:
            raise self.failures.pop(0)

    def look(self, **lost: list[str]) -> None:
        """Looks twice, and returns when a fence that it began has ended; a minute later."""
        given = {int(name.removeprefix("subtask_")): ids for name, ids in lost.items()}
        self.lost.look(given)
        deadline = Deadline.after(10)
        while self.lost._call is not None and not self.lost._call.done():
            assert not deadline.expired
        self.lost.look(given)
        self.now += 60


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


@pytest.mark.parametrize("failure", [KafkaUnreachable("no broker"), RuntimeError("unknown")])
def test_nothing_is_settled_until_a_fence_that_failed_has_succeeded(failure: Exception) -> None:
    """A broker may still do what it was asked. By then the subtask may be back, and have pre-committed."""
    rig = Rig(failure)
    assert rig.lost.is_settled
    rig.look(subtask_1=["p-1"])
    assert not rig.lost.is_settled
    rig.look()
    assert rig.fenced == [["p-1"], ["p-1"]]
    assert rig.lost.is_settled


def test_where_no_broker_was_asked_a_subtask_that_is_back_is_left_alone() -> None:
    """The API server was away, so that the claim was not known."""
    rig = Rig(CheckpointStoreUnavailable("no answer"))
    rig.look(subtask_1=["p-1"])
    assert rig.lost.is_settled
    rig.look()
    assert rig.fenced == [["p-1"]]


def test_where_no_broker_was_asked_a_subtask_that_is_still_lost_is_fenced_later() -> None:
    rig = Rig(KafkaUnreachable("no broker"), CheckpointStoreUnavailable("no answer"))
    rig.look(subtask_1=["p-1"])
    rig.look(subtask_1=["p-1"])
    assert not rig.lost.is_settled, "the first fence may still come"
    rig.look()
    assert rig.lost.is_settled
    assert rig.fenced == [["p-1"]] * 3
    alone = Rig(CheckpointStoreUnavailable("no answer"))
    for _ in range(3):
        alone.look(subtask_1=["p-1"])
    assert alone.fenced == [["p-1"]] * 2


def test_a_fence_is_not_settled_while_it_is_under_way() -> None:
    rig = Rig()
    rig.lost.look({1: ["p-1"]})
    assert not rig.lost.is_settled


@pytest.mark.parametrize("failure", [CheckpointConflict("attempt 3 has it"), CheckpointForeign("another job's")])
def test_an_attempt_whose_claim_is_gone_ends(failure: CheckpointError) -> None:
    rig = Rig(failure)
    with pytest.raises(type(failure)):
        rig.look(subtask_1=["p-1"])
