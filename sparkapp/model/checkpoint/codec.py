"""The checkpoint document as JSON text.

The job's own pods may write the ConfigMap that holds it, so the text is untrusted input. It is limited in size, every
field is checked, and it is bound to the job's UID. An unreadable document is an error, never an empty start
(FLINK-40401, FLINK-40414 and FLINK-40587 show the alternative). The fields of the document describe themselves
(:mod:`sparkapp.model.encoding.json_parts`). Here is what concerns several of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.encoding.json_parts import DOCUMENT, Unreadable, decode_part, encode_part, of_type, whole
from sparkapp.model.encoding.strict_json import by_topic, is_offset, parse, partitions_of, without_ids
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign, CheckpointTooLarge, KafkaSparkJobError
from sparkapp.model.partition import TopicPartition

FORMAT_VERSION = 1
LOCAL_FORMAT_VERSION = 2
"""Of documents of the local pace. Releases without it must refuse them: the group's offsets decide, not theirs."""
MAX_DOCUMENT_BYTES = 768 * 1024
"""Three quarters of the 1 MiB that a ConfigMap holds. A larger document is neither written nor read."""
MAX_ENGINE_BYTES = 64 * 1024
_NOT_PLACED = "new"
"""Behind the offsets of a partition in a document of the local pace."""


HEAD = replace(DOCUMENT, takes_unknown=True)
"""Of fields that are read before the others."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a text says of itself; also of a retained checkpoint."""

    format_version: int
    job_uid: str


@dataclass(frozen=True, slots=True)
class _Related:
    """Fields whose meaning depends on others."""

    splits: dict[str, Any]
    committables: list[Any]


def encode(document: CheckpointDocument) -> str:
    """The document as JSON text.

    Releases before a field read a document that does not need it, because only values other than defaults are written.

    :raises CheckpointTooLarge: it exceeds :data:`MAX_DOCUMENT_BYTES`, or the engine's text exceeds
        :data:`MAX_ENGINE_BYTES`. Nothing is written.
    """
    if len(document.engine) > MAX_ENGINE_BYTES:
        msg = f"the engine's text needs {len(document.engine)} characters, the limit is {MAX_ENGINE_BYTES}"
        remedy = "shorten settings spark.sql.streaming.* in spec.sparkConf: Spark keeps them with each micro-batch"
        raise CheckpointTooLarge(msg, remedy=remedy)
    local = document.local
    bounds: dict[TopicPartition, list[Any]] = {split.partition: [split.start, split.stop] for split in document.splits}
    if local is not None:
        for partition in bounds.keys() - local.placed:
            bounds[partition].append(_NOT_PLACED)
    return text_of(
        {
            "formatVersion": FORMAT_VERSION if local is None else LOCAL_FORMAT_VERSION,
            **encode_part(document, DOCUMENT),
            "splits": by_topic(bounds, ids=document.topic_ids),
        },
        "the checkpoint document needs {} bytes",
    )


def text_of(body: Mapping[str, Any], needs: str) -> str:
    """The text of a document or retained checkpoint; also called by its codec.

    :param needs: the begin of the message, with a place for the size.
    :raises CheckpointTooLarge: it exceeds :data:`MAX_DOCUMENT_BYTES`.
    """
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    size = len(text.encode())
    if size > MAX_DOCUMENT_BYTES:
        msg = f"{needs.format(size)}, the limit is {MAX_DOCUMENT_BYTES}"
        raise CheckpointTooLarge(msg)
    return text


def decode(text: str, *, job_uid: str) -> CheckpointDocument:
    """The document of a text, which is untrusted input.

    The ranges of committables are not stored. They are derived from the splits, the parallelism and the owner formula.

    :raises CheckpointCorrupt: the text is truncated, too large, not JSON or of an unknown format version. Or a field is
        missing, unknown or of the wrong type. Or values contradict each other.
    :raises CheckpointForeign: a job with another UID wrote it.
    """
    try:
        body = parse(text, "the checkpoint document", limit=MAX_DOCUMENT_BYTES)
        head = decode_part(Head, body, "document", HEAD)
        version = body.pop("formatVersion")
        if version not in {FORMAT_VERSION, LOCAL_FORMAT_VERSION}:
            msg = f"the checkpoint document has format version {version}, this release reads {LOCAL_FORMAT_VERSION}"
            raise CheckpointCorrupt(msg, remedy="set spec.image to the release that wrote it, or a newer release")
        if head.job_uid != job_uid:
            msg = f"the checkpoint document belongs to the job with UID {head.job_uid!r}, this job's is {job_uid!r}"
            raise CheckpointForeign(msg)
        document = _document(body, is_local=version == LOCAL_FORMAT_VERSION)
        document.require_consistent()
    except Unreadable as error:
        raise CheckpointCorrupt(str(error)) from error
    except (CheckpointCorrupt, CheckpointForeign):
        raise
    except KafkaSparkJobError as error:
        msg = f"the checkpoint document contradicts itself: {error.message}"
        raise CheckpointCorrupt(msg) from error
    return document


def _document(body: dict[str, Any], *, is_local: bool) -> CheckpointDocument:
    if is_local != ("local" in body):
        msg = "the checkpoint document has the part local, or lacks it, against its format version"
        raise CheckpointCorrupt(msg)
    related = decode_part(_Related, body, "document", HEAD)
    bounds, topic_ids = without_ids(related.splits, "splits")
    placed: set[TopicPartition] = set()
    splits = tuple(sorted(_splits(bounds, placed if is_local else None)))
    rest = {name: value for name, value in body.items() if name not in {"splits", "committables"}}
    document = decode_part(
        CheckpointDocument, rest, "document", DOCUMENT, splits=splits, topic_ids=topic_ids, committables=()
    )
    if len(document.engine) > MAX_ENGINE_BYTES:
        msg = f"engine is larger than {MAX_ENGINE_BYTES} bytes"
        raise CheckpointCorrupt(msg)
    owned = splits_by_subtask(splits, document.parallelism) if document.aligned else {}
    committables = tuple(
        _committable(item, f"committables[{index}]", document, owned) for index, item in enumerate(related.committables)
    )
    local = None if document.local is None else replace(document.local, placed=frozenset(placed))
    return replace(document, committables=committables, local=local)


def _splits(body: Mapping[str, Any], placed: set[TopicPartition] | None) -> list[KafkaPartitionSplit]:
    """
    :param placed: gets the placed partitions of a document of the local pace; None for any other document.
    """
    splits = []
    for partition, entry in partitions_of(body, "splits"):
        bounds = entry
        if placed is not None and isinstance(entry, list):
            if entry[2:] == [_NOT_PLACED]:
                bounds = entry[:2]
            else:
                placed.add(partition)
        if not isinstance(bounds, list) or len(bounds) != 2 or not all(is_offset(bound) for bound in bounds):
            msg = f"split {partition} must be [start, stop], two offsets"
            raise Unreadable(msg)
        splits.append(KafkaPartitionSplit(partition, bounds[0], bounds[1]))
    return splits


def _committable(
    item: object,
    where: str,
    document: CheckpointDocument,
    owned: Mapping[int, tuple[KafkaPartitionSplit, ...]],
) -> KafkaCommittable:
    body = dict(of_type(dict, item, where))
    # Earlier releases wrote 1 and never read it: only EndTxn's version decides (case P12).
    whole(body.pop("transactionVersion", 1), f"{where}.transactionVersion")
    read = decode_part(KafkaCommittable, body, where, DOCUMENT, checkpoint_id=document.checkpoint_id, ranges=())
    if read.subtask >= document.parallelism:
        msg = f"{where}.subtask {read.subtask} is not below the parallelism {document.parallelism}"
        raise Unreadable(msg)
    return replace(read, ranges=owned.get(read.subtask, ()))
