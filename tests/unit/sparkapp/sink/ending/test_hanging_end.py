"""The table of missing markers: which marker is missing, by the coordinator's description and the epochs."""

from __future__ import annotations

import pytest

from sparkapp.clients.transactions.states import TransactionDescription, TransactionState
from sparkapp.sink.ending.hanging_end import HangingEnd, hanging_end

STATES = TransactionState
EPOCH = 7
"""Of the coordinator's description."""


def described(state: TransactionState) -> TransactionDescription:
    return TransactionDescription(state=state, producer_id=1, producer_epoch=EPOCH, timeout_ms=60_000, start_time_ms=5)


@pytest.mark.parametrize(
    ("state", "behind", "end"),
    [
        (STATES.COMPLETE_COMMIT, 0, HangingEnd.COMMIT),
        # The id has a newer producer whose transaction was committed: how this transaction ended is forgotten.
        (STATES.COMPLETE_COMMIT, 1, HangingEnd.UNKNOWN),
        (STATES.COMPLETE_COMMIT, 2, HangingEnd.UNKNOWN),
        (STATES.COMPLETE_ABORT, 0, HangingEnd.ABORT),  # by its producer
        (STATES.COMPLETE_ABORT, 1, HangingEnd.ABORT),  # by its time-out
        (STATES.COMPLETE_ABORT, 2, HangingEnd.ABORT),  # by a fence, and ended again
        (STATES.COMPLETE_ABORT, 3, HangingEnd.UNKNOWN),
        (STATES.EMPTY, 0, HangingEnd.UNKNOWN),
        (STATES.EMPTY, 1, HangingEnd.UNKNOWN),  # initialised behind an end, which may have been a commit
        (STATES.EMPTY, 2, HangingEnd.ABORT),  # by the initialisation
        (STATES.EMPTY, 3, HangingEnd.UNKNOWN),
        (STATES.PREPARE_COMMIT, 0, HangingEnd.ENDING),
        (STATES.PREPARE_ABORT, 1, HangingEnd.ENDING),
        (STATES.PREPARE_EPOCH_FENCE, 1, HangingEnd.ENDING),
        (STATES.ONGOING, 0, HangingEnd.UNKNOWN),  # a later transaction of the producer, without this partition
        (STATES.DEAD, 0, HangingEnd.UNKNOWN),
        (STATES.UNKNOWN, 0, HangingEnd.UNKNOWN),
        # A leader that knows a later epoch than the coordinator: the coordinator's log has lost its end.
        (STATES.COMPLETE_COMMIT, -1, HangingEnd.UNKNOWN),
        (STATES.COMPLETE_ABORT, -1, HangingEnd.UNKNOWN),
    ],
)
def test_a_missing_marker_is_known_only_where_the_epochs_mean_the_same_transaction(
    state: TransactionState, behind: int, end: HangingEnd
) -> None:
    assert hanging_end(described(state), EPOCH - behind, in_transaction=False) is end


def test_a_transaction_that_is_open_by_its_coordinator_does_not_hang() -> None:
    assert hanging_end(described(STATES.ONGOING), EPOCH, in_transaction=True) is HangingEnd.OPEN


def test_a_forgotten_id_has_no_end() -> None:
    assert hanging_end(None, EPOCH, in_transaction=False) is HangingEnd.UNKNOWN
