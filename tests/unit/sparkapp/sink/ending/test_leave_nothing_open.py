"""What a driver that is to go does about its transactions when it cannot drain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.store import Stored
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointMissing,
    CheckpointRefused,
    CheckpointStoreUnavailable,
    CommitOutcomeUnknown,
    KafkaSparkJobError,
    KafkaUnreachable,
    TransactionFenced,
)
from sparkapp.sink.ending.transaction_control import leave_nothing_open
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeControl

DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix="p", previous_prefixes=("o",)
)


class Unreadable(MemoryStore):
    """A document that the driver cannot read."""

    def __init__(self, error: KafkaSparkJobError) -> None:
        super().__init__()
        self._error = error

    def read(self) -> Stored:
        raise self._error


def claim(store: MemoryStore) -> Claim:
    return Claim(store, job_uid=DOCUMENT.job_uid, attempt=DOCUMENT.attempt)


OURS = claim(MemoryStore(encode(DOCUMENT)))


@pytest.mark.parametrize(
    "owner",
    [
        OURS,
        claim(Unreadable(CheckpointMissing("deleted with the job"))),
        claim(Unreadable(CheckpointRefused("the Role was deleted with the job"))),
    ],
)
def test_what_is_final_is_committed_before_the_rest_is_aborted(owner: Claim) -> None:
    control = FakeControl()
    leave_nothing_open(control, owner, DOCUMENT, CheckpointMissing("the ConfigMap is gone"))
    assert control.calls == ["settle", "abort"]
    assert control.settled == control.aborted == [DOCUMENT]


@pytest.mark.parametrize(
    "owner",
    [
        claim(MemoryStore(encode(replace(DOCUMENT, attempt=3)))),
        claim(MemoryStore(encode(replace(DOCUMENT, job_uid="recreated")))),
        claim(MemoryStore()),
        claim(Unreadable(CheckpointStoreUnavailable("no answer"))),
    ],
)
def test_a_superseded_attempt_that_drains_leaves_its_successors_transactions_alone(owner: Claim) -> None:
    control = FakeControl()
    leave_nothing_open(control, owner, DOCUMENT, TransactionFenced("the successor has the id"))
    assert control.calls == []


@pytest.mark.parametrize("kind", [CheckpointConflict, CheckpointStoreUnavailable, CommitOutcomeUnknown])
def test_what_may_be_anothers_or_final_is_left_alone(kind: type[Exception]) -> None:
    control = FakeControl()
    leave_nothing_open(control, OURS, DOCUMENT, kind("m"))
    assert control.calls == []


def test_brokers_that_are_away_do_not_hide_the_first_error() -> None:
    leave_nothing_open(
        FakeControl(failure=KafkaUnreachable("no broker")),
        OURS,
        DOCUMENT,
        CheckpointMissing("the ConfigMap is gone"),
    )
