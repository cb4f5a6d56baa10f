"""The two namings of transactional ids, and the prefix and naming of an id.

A subtask's id is ``prefix-N`` (by the hint, :mod:`sparkapp.model.transactional_id`) or ``prefix-subtask.slot``. After
the last '-' comes a number without leading zeros, or two of them with a '.' between. So an id determines its prefix and
its naming. The driver's id is ``prefix-offsets``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sparkapp.model.encoding.json_parts import stored
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdGenerator, TransactionalIdHint, number_of

MAX_PARALLELISM = 1024
"""Of a job, also by the CRD."""
MAX_POOL_SIZE = 100
"""Ids of a subtask, also by the CRD."""

_OFFSETS = "offsets"
_SLOT_TAIL = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")


class TransactionNaming(StrEnum):
    """How a job's transactional ids are made (``sink.transactions.naming``)."""

    HINT = "Hint"
    """Numbers from the checkpoint's hint, which increase when the job is scaled up, as in FlinkKafkaProducer."""
    SUBTASK_AND_SLOT = "SubtaskAndSlot"
    """Ids of a subtask that stay the same in every attempt, also after a rescale; as few ids as Flink's POOLING."""


class SubtaskSlot(NamedTuple):
    """Subtask and slot of an id of SUBTASK_AND_SLOT."""

    subtask: int
    slot: int

    def named(self, prefix: str) -> str:
        """The id."""
        return f"{prefix}-{self.subtask}.{self.slot}"


@dataclass(frozen=True, slots=True)
class SlotBounds:
    """Bounds of the ids of SUBTASK_AND_SLOT that any attempt of a job may have used.

    An attempt extends the bounds in the checkpoint document before it writes under its ids. Bounds never shrink
    under ExactlyOnce: they cover superseded attempts with a larger pool, too.

    :param subtasks: the highest parallelism, 0 where no attempt had this naming.
    :param slots: the largest pool size, likewise.
    """

    subtasks: int = stored(key="parallelism", default=0, is_needed=True)
    slots: int = stored(key="poolSize", default=0, is_needed=True)

    def __post_init__(self) -> None:
        if not 0 <= self.subtasks <= MAX_PARALLELISM or not 0 <= self.slots <= MAX_POOL_SIZE:
            msg = f"subtasks reach to {MAX_PARALLELISM}, slots to {MAX_POOL_SIZE}: {self}"
            raise InvalidArgument(msg)
        if (self.subtasks == 0) != (self.slots == 0):
            msg = f"subtasks have slots, and slots are a subtask's: {self}"
            raise InvalidArgument(msg)

    def __contains__(self, pair: SubtaskSlot) -> bool:
        return pair.subtask < self.subtasks and pair.slot < self.slots

    def with_attempt(self, *, parallelism: int, pool_size: int) -> SlotBounds:
        """These bounds, extended by an attempt with this naming."""
        return SlotBounds(max(self.subtasks, parallelism), max(self.slots, pool_size))

    def ids(self, prefix: str) -> Iterator[str]:
        """All ids within the bounds, for recovery where ListTransactions is not allowed."""
        return (
            SubtaskSlot(subtask, slot).named(prefix) for subtask in range(self.subtasks) for slot in range(self.slots)
        )


NO_SLOTS = SlotBounds()
"""No attempt had SUBTASK_AND_SLOT."""


def is_first_start(hint: TransactionalIdHint, slots: SlotBounds) -> bool:
    """Whether no attempt of the job can have written a transaction: an open transaction is then foreign (H09)."""
    return hint == FIRST_HINT and slots == NO_SLOTS


def pool_of_subtask(
    naming: TransactionNaming, *, prefix: str, subtask: int, parallelism: int, pool_size: int, next_free: int
) -> list[str]:
    """The ids that a subtask rotates through in an attempt, in order; called by its writer.

    :param next_free: of the restored hint; ignored under SUBTASK_AND_SLOT.
    :raises InvalidArgument: the subtask is outside of the parallelism, or a number is out of range (H17).
    """
    generator = TransactionalIdGenerator(prefix=prefix, subtask=subtask, parallelism=parallelism, pool_size=pool_size)
    if naming is TransactionNaming.HINT:
        return generator.ids_to_use(next_free=next_free)
    return [SubtaskSlot(subtask, slot).named(prefix) for slot in range(pool_size)]


def subtask_slot_of(transactional_id: str, prefix: str) -> SubtaskSlot | None:
    """:meth:`SubtaskSlot.named` read back; None where the id is of another prefix or naming."""
    head, dash, tail = transactional_id.rpartition("-")
    match = _SLOT_TAIL.fullmatch(tail) if head == prefix and dash else None
    return SubtaskSlot(int(match[1]), int(match[2])) if match else None


def local_id(prefix: str, subtask: int) -> str:
    """The only id of a subtask that commits by itself, in either naming: its transactions follow each other."""
    return SubtaskSlot(subtask, 0).named(prefix)


def offsets_id(prefix: str) -> str:
    """The id of the driver's transactions, which hold offsets only (``sink.offset_transactions``)."""
    return f"{prefix}-{_OFFSETS}"


def is_of_prefix(transactional_id: str, prefix: str) -> bool:
    """Whether the id is of the prefix, in either naming (A07: foreign ids stay untouched)."""
    of_subtask = (
        number_of(transactional_id, prefix) is not None or subtask_slot_of(transactional_id, prefix) is not None
    )
    return of_subtask or transactional_id == offsets_id(prefix)


def order_of(transactional_id: str, prefix: str) -> tuple[int, ...]:
    """Sort key of the ids of a prefix: by number, then by subtask and slot, then the driver's id."""
    number, pair = number_of(transactional_id, prefix), subtask_slot_of(transactional_id, prefix)
    if number is not None:
        return (0, number)
    return (2,) if pair is None else (1, *pair)


def pattern_of(prefix: str) -> str:
    """A regular expression for brokers (RE2J) and Python that matches at least the ids of a prefix."""
    return rf"{re.escape(prefix)}-([0-9]+(\.[0-9]+)?|{_OFFSETS})"
