"""The two namings of transactional ids, and which prefix and naming an id is of.

A subtask's id is ``prefix-N`` (by the hint, :mod:`sparkapp.model.transactional_id`) or ``prefix-subtask.slot``. Numbers
are written without leading zeros, and what follows the last '-' is a number, or two with a '.' between: so an id tells
prefix and naming, and no two pairs of them make one id. The driver's id, ``prefix-offsets``, has no number at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sparkapp.model.errors import InvalidArgument
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdGenerator, TransactionalIdHint, number_of

MAX_PARALLELISM = 1024
"""Of a job; the resource's own limit, too."""
MAX_POOL_SIZE = 100
"""Ids of a subtask; the resource's own limit, too."""

_OFFSETS = "offsets"
_SLOT_TAIL = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")


class TransactionNaming(StrEnum):
    """How a job's transactional ids are made (``sink.transactionNaming``)."""

    HINT = "Hint"
    """Numbers from the checkpoint's hint, which move on when the job grows; those of the legacy FlinkKafkaProducer."""
    SUBTASK_AND_SLOT = "SubtaskAndSlot"
    """A subtask's ids are the same in every life, whatever it was rescaled to between; as Flink's POOLING has few."""


class Place(NamedTuple):
    """What an id of SUBTASK_AND_SLOT says."""

    subtask: int
    slot: int

    def named(self, prefix: str) -> str:
        """The id."""
        return f"{prefix}-{self.subtask}.{self.slot}"


@dataclass(frozen=True, slots=True)
class SlotBounds:
    """How far the ids of SUBTASK_AND_SLOT reach that any life of a job can have used.

    A life adds its own to the checkpoint document before it writes under one of them, and nothing is ever taken out:
    a superseded life of old is still within them, though the pool has shrunk meanwhile.

    :param subtasks: the widest parallelism, 0 where no life had this naming. :param slots: the largest pool.
    """

    subtasks: int = 0
    slots: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.subtasks <= MAX_PARALLELISM or not 0 <= self.slots <= MAX_POOL_SIZE:
            msg = f"subtasks reach to {MAX_PARALLELISM}, slots to {MAX_POOL_SIZE}: {self}"
            raise InvalidArgument(msg)
        if (self.subtasks == 0) != (self.slots == 0):
            msg = f"subtasks have slots, and slots are a subtask's: {self}"
            raise InvalidArgument(msg)

    def __contains__(self, place: Place) -> bool:
        return place.subtask < self.subtasks and place.slot < self.slots

    def with_life(self, *, parallelism: int, pool_size: int) -> SlotBounds:
        """These, and what a life of this naming uses."""
        return SlotBounds(max(self.subtasks, parallelism), max(self.slots, pool_size))

    def ids(self, prefix: str) -> Iterator[str]:
        """All of them, for a walk where listing is not allowed."""
        return (Place(subtask, slot).named(prefix) for subtask in range(self.subtasks) for slot in range(self.slots))


NO_SLOTS = SlotBounds()
"""No life had SUBTASK_AND_SLOT."""


def is_first_start(hint: TransactionalIdHint, slots: SlotBounds) -> bool:
    """Whether no life of the job is known that can have written a transaction: what is there is a stranger's (H09)."""
    return hint == FIRST_HINT and slots == NO_SLOTS


def pool_of_subtask(
    naming: TransactionNaming, *, prefix: str, subtask: int, parallelism: int, pool_size: int, next_free: int
) -> list[str]:
    """The ids that a subtask rotates through in one life, in order; asked by its writer.

    :param next_free: of the restored hint; without a meaning under SUBTASK_AND_SLOT.
    :raises InvalidArgument: a subtask outside of the parallelism, or numbers that cannot be (H17).
    """
    generator = TransactionalIdGenerator(prefix=prefix, subtask=subtask, parallelism=parallelism, pool_size=pool_size)
    if naming is TransactionNaming.HINT:
        return generator.ids_to_use(next_free=next_free)
    return [Place(subtask, slot).named(prefix) for slot in range(pool_size)]


def place_of(transactional_id: str, prefix: str) -> Place | None:
    """:meth:`Place.named` read back; None where the id is not one of this prefix and SUBTASK_AND_SLOT."""
    head, dash, tail = transactional_id.rpartition("-")
    match = _SLOT_TAIL.fullmatch(tail) if head == prefix and dash else None
    return Place(int(match[1]), int(match[2])) if match else None


def offsets_id(prefix: str) -> str:
    """The id of the transactions that hold offsets alone, which the driver writes (``sink.offset_transactions``)."""
    return f"{prefix}-{_OFFSETS}"


def is_of_prefix(transactional_id: str, prefix: str) -> bool:
    """Whether the id is one of the prefix, whatever the naming (A07: foreign ids stay untouched)."""
    is_subtasks = number_of(transactional_id, prefix) is not None or place_of(transactional_id, prefix) is not None
    return is_subtasks or transactional_id == offsets_id(prefix)


def order_of(transactional_id: str, prefix: str) -> tuple[int, ...]:
    """Sorts ids of one prefix: by number, then by subtask and slot, then the driver's."""
    number, place = number_of(transactional_id, prefix), place_of(transactional_id, prefix)
    if number is not None:
        return (0, number)
    return (2,) if place is None else (1, *place)


def pattern_of(prefix: str) -> str:
    """A regular expression that brokers (RE2J) and Python read alike, of at least the ids of a prefix."""
    return rf"{re.escape(prefix)}-([0-9]+(\.[0-9]+)?|{_OFFSETS})"
