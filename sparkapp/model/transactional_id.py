"""Transactional ids by hint: which subtask writes under which id, and which ids a previous attempt may have left open.

The arithmetic is that of Flink's ``TransactionalIdsGenerator`` and of ``FlinkKafkaProducer.nextTransactionalIdHint``
(conformance group H). Ids are ``prefix-N``; subtask i of P owns ``next + i*pool … next + i*pool + pool-1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkapp.model.encoding.json_parts import MAX_INT, stored
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.errors.arguments import check_text, check_whole

SAFE_SCALE_DOWN_FACTOR = 5
"""How much larger an unknown previous parallelism may have been (Flink's SAFE_SCALE_DOWN_FACTOR)."""

MAX_PREFIX_BYTES = 249
"""Kafka stores the id in a record key; we keep prefixes as short as topic names so that tools can show them."""

MAX_COUNTED = 10**18 - 1
"""Limit of checkpoint numbers and of ids by hint, which the next document increases. Keys of retained checkpoints have
at most 18 digits. A thousand checkpoints or ids a millisecond reach it after 30,000 years."""

_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class TransactionalIdHint:
    """What a checkpoint remembers of the ids in use: ``{lastParallelism, nextFreeTransactionalId}``.

    :raises InvalidArgument: a part is negative, or no whole number (H17).
    """

    last_parallelism: int = stored(high=MAX_INT)
    next_free_transactional_id: int = stored(high=MAX_COUNTED)

    def __post_init__(self) -> None:
        check_whole("last_parallelism", self.last_parallelism, 0)
        check_whole("next_free_transactional_id", self.next_free_transactional_id, 0)

    def advance(self, *, parallelism: int, pool_size: int) -> TransactionalIdHint:
        """The hint that subtask 0 writes on a checkpoint, computed from the *restored* hint.

        Repeated checkpoints of an attempt therefore write the same value (H10). Ids advance only when P grew (H12).
        """
        check_whole("parallelism", parallelism, 1)
        check_whole("pool_size", pool_size, 1)
        next_free = self.next_free_transactional_id
        if parallelism > self.last_parallelism:
            next_free += parallelism * pool_size
        return TransactionalIdHint(parallelism, next_free)


FIRST_HINT = TransactionalIdHint(0, 0)
"""The hint of a job that has no checkpoint yet (H09)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalIdGenerator:
    """The ids of one subtask.

    :param prefix: job-wide prefix; the ids are ``prefix-N``.
    :param subtask: index in ``[0, parallelism)``.
    :param pool_size: ids a subtask rotates through, at least 1 here (the engine asks for 2).
    :param safe_scale_down_factor: how many pools of P subtasks :meth:`ids_to_abort` covers.
    :raises InvalidArgument: on an argument outside these (H17).
    """

    prefix: str
    subtask: int
    parallelism: int
    pool_size: int
    safe_scale_down_factor: int = SAFE_SCALE_DOWN_FACTOR

    def __post_init__(self) -> None:
        if not self.prefix:
            msg = "the transactional id prefix must not be empty"
            raise InvalidArgument(msg)
        check_text("prefix", self.prefix)
        check_whole("parallelism", self.parallelism, 1)
        check_whole("pool_size", self.pool_size, 1)
        check_whole("safe_scale_down_factor", self.safe_scale_down_factor, 1)
        check_whole("subtask", self.subtask, 0)
        if self.subtask >= self.parallelism:
            msg = f"subtask must be in [0, {self.parallelism}), not {self.subtask}"
            raise InvalidArgument(msg)

    def ids_to_use(self, *, next_free: int) -> list[str]:
        """The pool of this subtask when the restored hint's next free id is ``next_free`` (H01 to H04)."""
        check_whole("next_free", next_free, 0)
        first = next_free + self.subtask * self.pool_size
        return [f"{self.prefix}-{number}" for number in range(first, first + self.pool_size)]

    def ids_to_abort(self) -> list[str]:
        """The ids that this subtask fences on a start without a hint (H05, H06, H08)."""
        return [
            transactional_id
            for generation in range(self.safe_scale_down_factor)
            for transactional_id in self.ids_to_use(next_free=generation * self.pool_size * self.parallelism)
        ]


def check_prefix(prefix: str) -> None:
    """Refuses a prefix that Kafka, its tools or our own parsing would stumble over."""
    check_text("prefix", prefix)
    if not _PREFIX.fullmatch(prefix) or len(prefix.encode()) > MAX_PREFIX_BYTES:
        allowed = f"1 to {MAX_PREFIX_BYTES} characters of letters, digits, '.', '_' and '-'"
        msg = f"transactional id prefix {prefix!r} must be {allowed}"
        raise InvalidArgument(msg)


def number_of(transactional_id: str, prefix: str) -> int | None:
    """N of ``prefix-N``, or None where the id is not one of this prefix (A07: foreign ids stay untouched)."""
    check_text("transactional_id", transactional_id)
    check_text("prefix", prefix)
    head, dash, tail = transactional_id.rpartition("-")
    return int(tail) if head == prefix and dash and _NUMBER.fullmatch(tail) else None
