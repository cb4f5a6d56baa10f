"""How a transaction ended whose marker is missing in a partition (ADR 68). Pure.

A partition's leader has a producer's transaction open. Its coordinator describes the producer's id. The missing marker
is the marker that the coordinator calls written, where the epochs prove that both mean the same transaction.
"""

from __future__ import annotations

from enum import Enum

from sparkapp.model.checkpoint.commit_outcome import Described


class HangingEnd(Enum):
    """What is to be done about a transaction that is open in a partition."""

    OPEN = "open"
    """Its coordinator has it open, too."""
    ENDING = "ending"
    """Its coordinator is writing markers: ask again."""
    COMMIT = "commit"
    ABORT = "abort"
    UNKNOWN = "unknown"
    """Nobody knows the outcome any more, so neither marker may be written without a person."""


_FENCES = 2
"""A fence of an open transaction increments the epoch twice: for its abort, and for the new producer."""


def hanging_end(described: Described | None, open_epoch: int, *, in_transaction: bool) -> HangingEnd:
    """The end of a producer's transaction that a partition's leader has open.

    A commit keeps the epoch. An abort keeps it, or a time-out or a fence increments it. The state Empty comes behind an
    initialisation, which aborts what is open and increments the epoch twice. After a single step the transaction had
    ended before, and how it ended is forgotten.

    :param described: the coordinator's description of the producer's id, of the same producer id; None where the id has
        expired or has another producer.
    :param open_epoch: of the producer's last record in the partition.
    :param in_transaction: whether the description's transaction is open and includes the partition.
    """
    state = "" if described is None else str(described.state)
    behind = 0 if described is None else described.producer_epoch - open_epoch
    if in_transaction:
        return HangingEnd.OPEN
    if state.startswith("Prepare"):
        return HangingEnd.ENDING
    if state == "CompleteCommit" and behind == 0:
        return HangingEnd.COMMIT
    if (state == "CompleteAbort" and 0 <= behind <= _FENCES) or (state == "Empty" and behind == _FENCES):
        return HangingEnd.ABORT
    return HangingEnd.UNKNOWN
