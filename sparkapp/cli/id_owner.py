"""The owner of a transactional id, from the checkpoint document and its hint; only shown, nothing is decided by it.

Reads the two namings of :mod:`sparkapp.model.checkpoint.naming` backwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import NO_SLOTS, is_of_prefix, offsets_id, subtask_slot_of
from sparkapp.model.checkpoint.slots import slot_of
from sparkapp.model.transactional_id import number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class IdOwner:
    """A transactional id's owner.

    :param subtask: writer; None for the driver, and for ids by hint of attempts whose parallelism is unknown.
    :param slot: number in the subtask's pool, from 0; None if ``subtask`` is.
    :param attempt: description of the attempt or attempts that use the id.
    """

    subtask: int | None
    slot: int | None
    attempt: str


def owner_of(transactional_id: str, document: CheckpointDocument, *, pool_size: int) -> IdOwner | None:
    """The owner of an id; None for an id of another prefix. Pure.

    Called by ``sparkapp txn``. An id by subtask and slot contains both, but all attempts use the same ids. By a hint
    ``{L, N}``, ids from N on belong to the attempt that starts from the hint. The ``L * pool`` ids below N belong to
    the attempt that first ran with L subtasks and wrote the hint.

    :param pool_size: ``sink.transactions.producersPoolSize``, which the document does not hold.
    """
    prefix = next((known for known in document.prefixes if is_of_prefix(transactional_id, known)), None)
    if prefix is None:
        return None
    if transactional_id == offsets_id(prefix):
        return IdOwner(subtask=None, slot=None, attempt="the driver of any attempt: offsets alone")
    pair, named = subtask_slot_of(transactional_id, prefix), committable_of(transactional_id, document)
    if named is not None:
        slot = slot_of(named.checkpoint_id, pool_size) if pair is None else pair.slot
        return IdOwner(subtask=named.subtask, slot=slot, attempt=f"checkpoint {named.checkpoint_id} names it as final")
    if pair is not None:
        known = f"attempt {document.attempt} or any before it" if pair in document.slots else "an unknown attempt"
        attempt = known if prefix == document.prefix else "an attempt with a previous prefix"
        return IdOwner(subtask=pair.subtask, slot=pair.slot, attempt=attempt)
    number = number_of(transactional_id, prefix)
    if number is None or prefix != document.prefix:
        return IdOwner(subtask=None, slot=None, attempt="an attempt with a previous prefix")
    return _owner_by_hint(number, document, pool_size)


def committable_of(transactional_id: str, document: CheckpointDocument) -> KafkaCommittable | None:
    """The document's committable with an id, whatever its producer id and epoch; None if it has none."""
    named = (committable for committable in document.committables if committable.transactional_id == transactional_id)
    return next(named, None)


def _owner_by_hint(number: int, document: CheckpointDocument, pool_size: int) -> IdOwner:
    hint = document.hint
    since = number - hint.next_free_transactional_id
    if since >= 0:
        by_hint = f"attempt {document.attempt} or the attempt before"
        attempt = by_hint if document.slots == NO_SLOTS else "the last attempts that were named by hint"
        return IdOwner(subtask=since // pool_size, slot=since % pool_size, attempt=attempt)
    grown = since + hint.last_parallelism * pool_size
    if grown >= 0:
        return IdOwner(
            subtask=grown // pool_size,
            slot=grown % pool_size,
            attempt=f"the attempt that first ran with parallelism {hint.last_parallelism}",
        )
    return IdOwner(subtask=None, slot=None, attempt="an attempt before the last growth")
