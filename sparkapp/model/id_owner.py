"""Whose a transactional id is, as far as a checkpoint document and its hint tell; for people's eyes.

The two namings (:mod:`sparkapp.model.transaction_naming`), read backwards. Nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.transaction_naming import NO_SLOTS, is_of_prefix, offsets_id, place_of
from sparkapp.model.transactional_id import number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class IdOwner:
    """One id's place.

    :param subtask: writer, or None for the driver's, and for ids by hint of lives whose parallelism is no longer known.
    :param slot: place in the subtask's pool, from 0; None likewise.
    :param life: which attempt or attempts, in words.
    """

    subtask: int | None
    slot: int | None
    life: str


def owner_of(transactional_id: str, document: CheckpointDocument, *, pool_size: int) -> IdOwner | None:
    """The owner of an id; None for an id of another prefix. Pure.

    An id by subtask and slot says both itself, but not which life's it is, for all have the same. A hint ``{L, N}``
    says that ids from N on belong to whoever starts from it, and the ``L * pool`` ids below N to the attempt that first
    ran with L subtasks and wrote the hint.

    :param pool_size: ``sink.producersPoolSize``, which the document does not hold.
    """
    prefix = next((one for one in document.prefixes if is_of_prefix(transactional_id, one)), None)
    if prefix is None:
        return None
    if transactional_id == offsets_id(prefix):
        return IdOwner(subtask=None, slot=None, life="the driver of any attempt: offsets alone")
    place, named = place_of(transactional_id, prefix), committable_of(transactional_id, document)
    if named is not None:
        slot = named.checkpoint_id % pool_size if place is None else place.slot
        return IdOwner(subtask=named.subtask, slot=slot, life=f"checkpoint {named.checkpoint_id} names it as final")
    if place is not None:
        known = f"attempt {document.attempt} or any before it" if place in document.slots else "an unknown attempt"
        life = known if prefix == document.prefix else "an attempt with a former prefix"
        return IdOwner(subtask=place.subtask, slot=place.slot, life=life)
    number = number_of(transactional_id, prefix)
    if number is None or prefix != document.prefix:
        return IdOwner(subtask=None, slot=None, life="an attempt with a former prefix")
    return _owner_by_hint(number, document, pool_size)


def committable_of(transactional_id: str, document: CheckpointDocument) -> KafkaCommittable | None:
    """The committable that the document has under an id, whatever its producer id and epoch."""
    return next((one for one in document.committables if one.transactional_id == transactional_id), None)


def _owner_by_hint(number: int, document: CheckpointDocument, pool_size: int) -> IdOwner:
    hint = document.hint
    since = number - hint.next_free_transactional_id
    if since >= 0:
        by_hint = f"attempt {document.attempt} or the one before"
        life = by_hint if document.slots == NO_SLOTS else "the last attempts that were named by hint"
        return IdOwner(subtask=since // pool_size, slot=since % pool_size, life=life)
    grown = since + hint.last_parallelism * pool_size
    if grown >= 0:
        return IdOwner(
            subtask=grown // pool_size,
            slot=grown % pool_size,
            life=f"the attempt that first ran with parallelism {hint.last_parallelism}",
        )
    return IdOwner(subtask=None, slot=None, life="an attempt before the last growth")
