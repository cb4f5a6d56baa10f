"""What a driver that is to go does about its transactions when it cannot drain."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparkapp.checkpoint.transaction_control import leave_nothing_open
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointMissing,
    CheckpointStoreUnavailable,
    CommitOutcomeUnknown,
    KafkaUnreachable,
)
from sparkapp.sink.committer import Settled

DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix="p", former_prefixes=("o",)
)


class Control:
    """Notes what it is asked to do."""

    def __init__(self, *, away: bool = False) -> None:
        self.done: list[object] = []
        self._away = away

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        if self._away:
            msg = "no broker"
            raise KafkaUnreachable(msg)
        self.done.append(document)
        return ()

    def abort_lingering(self, document: CheckpointDocument) -> int:
        self.done.append((document.prefixes, document.hint, document.slots))
        return 1


def test_what_is_final_is_committed_before_the_rest_is_aborted() -> None:
    control = Control()
    leave_nothing_open(control, DOCUMENT, CheckpointMissing("the ConfigMap is gone"))
    assert control.done == [DOCUMENT, (("p", "o"), DOCUMENT.hint, DOCUMENT.slots)]


@pytest.mark.parametrize("kind", [CheckpointConflict, CheckpointStoreUnavailable, CommitOutcomeUnknown])
def test_what_may_be_anothers_or_final_is_left_alone(kind: type[Exception]) -> None:
    control = Control()
    leave_nothing_open(control, DOCUMENT, kind("m"))
    assert control.done == []


def test_brokers_that_are_away_do_not_hide_the_first_error() -> None:
    leave_nothing_open(Control(away=True), DOCUMENT, CheckpointMissing("the ConfigMap is gone"))
