"""Retained checkpoints, which a job can restore: their content, and which of them are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sparkapp.model import names
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.encoding.json_parts import stored
from sparkapp.model.encoding.strict_json import by_topic, offsets_of, zoned_time
from sparkapp.model.errors import CheckpointUnusable
from sparkapp.model.partition import TopicPartition

_PIN = re.compile(r"([1-9][0-9]{0,17})\.([a-z0-9.-]{1,253})")
_KEY = re.compile(r"checkpoint-([1-9][0-9]{0,17})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedCheckpoint:
    """The retained part of a completed checkpoint: the next offset of each partition.

    Its transactions are all committed, so they are left out.

    :param created_at: RFC 3339.
    :param orderly: True for the last checkpoint of an orderly stop.
    :param offsets: next offset to read, by partition.
    :param topic_ids: as in :class:`CheckpointDocument`, of topics of the cluster ``cluster_id``.
    :param stops: end offset of each partition of a bounded job.
    :param stopping: fingerprint of the setting behind the stops, as in :class:`CheckpointDocument`.
    :param engine: the engine's text, which names the retained version of query state (ADR 83). Empty for a job without
        state, and where its state is not retained: a job with state cannot go back to it then.
    :param records_in: source offsets since the job's first start, as in the document's counters.
    """

    job_uid: str
    attempt: int = stored(low=1)
    checkpoint_id: int = stored(low=1)
    created_at: str = stored(read=zoned_time)
    orderly: bool = stored(default=False, is_needed=True)
    offsets: Mapping[TopicPartition, int] = stored(default_factory=dict, is_hidden=True)
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = stored(default_factory=dict, is_hidden=True)
    stopping: str = stored(key="bounded.stopping", default="")
    stops: Mapping[TopicPartition, int] = stored(
        key="bounded.stops", default_factory=dict, read=offsets_of, write=by_topic
    )
    engine: str = ""
    records_in: int = stored(default=0, is_needed=True)
    records_out: int = stored(default=0, is_needed=True)

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.created_at)


def retained(document: CheckpointDocument, *, engine: str = "") -> RetainedCheckpoint:
    """The retained part of a document whose transactions are committed.

    :param engine: as in :class:`RetainedCheckpoint`.
    """
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
        engine=engine,
        records_in=document.counters.records_in,
        records_out=document.counters.records_out,
    )


def as_retained(document: CheckpointDocument) -> RetainedCheckpoint:
    """The current checkpoint as a retained checkpoint; its query state is where the document says.

    Called by a restore to the current checkpoint, and by the command line.
    """
    return retained(document, engine=document.engine if document.engine_has_state else "")


def retained_key(checkpoint_id: int) -> str:
    """Name of the checkpoint in the ConfigMap or folder."""
    return f"checkpoint-{checkpoint_id}.json"


def checkpoint_of_key(key: str) -> int | None:
    """:func:`retained_key` read back; None for any other name."""
    match = _KEY.fullmatch(key)
    return int(match[1]) if match else None


class Pin(NamedTuple):
    """A snapshot keeps the query state of a retained checkpoint on the job's volume.

    :param checkpoint_id: of the checkpoint. :param snapshot: name of the KafkaSparkSnapshot.
    """

    checkpoint_id: int
    snapshot: str


def pin_annotation(uid: str, pin: Pin) -> dict[str, str]:
    """The annotation of a pin, for the ConfigMap of the retained checkpoints.

    :param uid: of the KafkaSparkSnapshot.
    """
    return {f"{names.ANNOTATION_PIN}{uid}": f"{pin.checkpoint_id}.{pin.snapshot}"}


def pins_of(annotations: Mapping[str, str] | None) -> dict[str, Pin]:
    """:func:`pin_annotation` read back: pins by the UIDs of their snapshots.

    The operator writes pins, and the driver removes no state that a pin names.

    :raises CheckpointUnusable: a pin cannot be read, so it is not known what it keeps.
    """
    found = {}
    for key, text in (annotations or {}).items():
        if not key.startswith(names.ANNOTATION_PIN):
            continue
        match = _PIN.fullmatch(text)
        if match is None:
            msg = f"annotation {key} names no checkpoint: {text[:100]!r}"
            remedy = f"kubectl annotate configmap JOB-checkpoints -n NAMESPACE {key}-"
            raise CheckpointUnusable(msg, remedy=remedy)
        found[key.removeprefix(names.ANNOTATION_PIN)] = Pin(int(match[1]), match[2])
    return found


class Held(NamedTuple):
    """An entry of the ConfigMap or folder of retained checkpoints.

    :param size: bytes of its text.
    :param usable: whether it is readable and of this job.
    """

    key: str
    size: int
    usable: bool


def surplus(held: Iterable[Held], *, count: int, budget: int) -> list[str]:
    """The keys to drop so that at most ``count`` entries of at most ``budget`` bytes stay. Pure.

    Unusable entries are dropped first, then the oldest.
    """
    waiting = sorted(held, key=lambda entry: (entry.usable, checkpoint_of_key(entry.key) or 0))
    size = sum(entry.size for entry in waiting)
    dropped = []
    for index, entry in enumerate(waiting):
        if len(waiting) - index <= count and size <= budget:
            break
        size -= entry.size
        dropped.append(entry.key)
    return dropped
