"""Earlier checkpoints that a job can go back to: what is kept of each, and which of them stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.partition import TopicPartition

_KEY = re.compile(r"checkpoint-([1-9][0-9]{0,17})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedCheckpoint:
    """What is kept of a completed checkpoint: where each partition went on after it.

    Nothing of its transactions, for they are all committed, and nothing of the engine's: a job whose operators keep
    state does not go back.

    :param created_at: RFC 3339.
    :param orderly: the last one of an orderly stop.
    :param offsets: next offset to read, a partition.
    :param topic_ids: as :class:`CheckpointDocument` has them, of the topics of ``cluster_id``.
    :param stops: where each partition of a bounded job ends, with the choice that they came from (``stopping``).
    :param records_in: source offsets since the job's first start, as the document's counters have it.
    """

    job_uid: str
    attempt: int
    checkpoint_id: int
    created_at: str
    orderly: bool = False
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    stops: Mapping[TopicPartition, int] = field(default_factory=dict)
    stopping: str = ""
    records_in: int = 0
    records_out: int = 0

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.created_at)


def retained(document: CheckpointDocument) -> RetainedCheckpoint:
    """What is kept of a document whose transactions are committed."""
    return RetainedCheckpoint(
        job_uid=document.job_uid,
        attempt=document.attempt,
        checkpoint_id=document.checkpoint_id,
        created_at=document.created_at,
        orderly=document.drained,
        offsets=document.offsets,
        cluster_id=document.cluster_id,
        topic_ids=document.topic_ids,
        stops=document.stops,
        stopping=document.stopping,
        records_in=document.counters.records_in,
        records_out=document.counters.records_out,
    )


def retained_key(checkpoint_id: int) -> str:
    """Its name in the ConfigMap or folder."""
    return f"checkpoint-{checkpoint_id}.json"


def checkpoint_of_key(key: str) -> int | None:
    """:func:`retained_key` read back; None for a name that is not ours."""
    match = _KEY.fullmatch(key)
    return int(match[1]) if match else None


class Held(NamedTuple):
    """One entry of the place that holds retained checkpoints.

    :param size: bytes of its text.
    :param usable: this job's and readable.
    """

    key: str
    size: int
    usable: bool


def surplus(held: Iterable[Held], *, count: int, budget: int) -> list[str]:
    """The keys to drop so that at most ``count`` entries of at most ``budget`` bytes stay. Pure.

    What cannot be gone back to goes first, then the oldest.
    """
    waiting = sorted(held, key=lambda one: (one.usable, checkpoint_of_key(one.key) or 0))
    size = sum(one.size for one in waiting)
    dropped = []
    for index, one in enumerate(waiting):
        if len(waiting) - index <= count and size <= budget:
            break
        size -= one.size
        dropped.append(one.key)
    return dropped
