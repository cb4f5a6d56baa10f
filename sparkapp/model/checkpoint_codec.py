"""The checkpoint document as one JSON text.

The ConfigMap that holds it is writable by the job's own pods, so it is read as untrusted input: capped, schema-checked
to the last field and bound to the job's UID. Unreadable is an error, never "start empty" (FLINK-40401, FLINK-40414,
FLINK-40587 are what happens otherwise).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sparkapp.model.checkpoint import CheckpointDocument, Counters
from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign, CheckpointTooLarge, KafkaSparkJobError
from sparkapp.model.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.strict_json import (
    StrictReader,
    by_topic,
    is_offset,
    offsets_of,
    parse,
    partitions_of,
    string_of,
    without_ids,
)
from sparkapp.model.transaction_naming import NO_SLOTS, SlotBounds, is_of_prefix, offsets_id, place_of
from sparkapp.model.transactional_id import TransactionalIdHint, check_prefix

FORMAT_VERSION = 1
MAX_DOCUMENT_BYTES = 768 * 1024
"""A ConfigMap holds 1 MiB in all; beyond three quarters of it a document is refused, in both directions."""
MAX_ENGINE_BYTES = 64 * 1024
_BELOW = 1 << 31
"""Of an attempt's number and of subtasks: what Kubernetes' and Kafka's numbers of that kind can hold."""


def encode(document: CheckpointDocument) -> str:
    """The document as JSON text.

    :raises CheckpointTooLarge: beyond :data:`MAX_DOCUMENT_BYTES`, or the engine's text beyond
        :data:`MAX_ENGINE_BYTES`; nothing is written then.
    """
    if len(document.engine) > MAX_ENGINE_BYTES:
        msg = f"the engine's text needs {len(document.engine)} characters, the limit is {MAX_ENGINE_BYTES}"
        remedy = "shorten settings spark.sql.streaming.* in spec.sparkConf: Spark keeps them with each micro-batch"
        raise CheckpointTooLarge(msg, remedy=remedy)
    splits = by_topic({one.partition: [one.start, one.stop] for one in document.splits}, ids=document.topic_ids)
    body: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION,
        "jobUid": document.job_uid,
        "attempt": document.attempt,
        "checkpointId": document.checkpoint_id,
        "createdAt": document.created_at,
        "parallelism": document.parallelism,
        "transactionalIdPrefix": document.prefix,
        "formerPrefixes": list(document.former_prefixes),
        "hint": {
            "lastParallelism": document.hint.last_parallelism,
            "nextFreeTransactionalId": document.hint.next_free_transactional_id,
        },
        "splits": splits,
        "aligned": document.aligned,
        "committables": [
            {
                "transactionalId": one.transactional_id,
                "producerId": one.producer_id,
                "producerEpoch": one.producer_epoch,
                "subtask": one.subtask,
                "records": one.records,
                **({"attempt": one.attempt} if one.attempt else {}),
                **({"deadLetters": one.dead_letters} if one.dead_letters else {}),
                **({"startTimeMs": one.start_time_ms} if one.start_time_ms else {}),
            }
            for one in document.committables
        ],
        "witnessGroup": document.witness_group,
        "engine": document.engine,
        "engineHasState": document.engine_has_state,
        "drained": document.drained,
        "counters": {
            "recordsIn": document.counters.records_in,
            "recordsOut": document.counters.records_out,
            "recordsSkipped": document.counters.records_skipped,
            "recordsDeadLettered": document.counters.records_dead_lettered,
            "transactionsCommitted": document.counters.transactions_committed,
            "transactionsAborted": document.counters.transactions_aborted,
        },
    }
    if document.cluster_id:
        body["clusterId"] = document.cluster_id
    if document.redeploy_nonce:
        body["redeployNonce"] = document.redeploy_nonce
    if document.stopping:
        # Written for bounded jobs alone: other jobs' documents stay readable to releases that know no bounded ones.
        body["bounded"] = {
            "stopping": document.stopping,
            "finished": document.finished,
            "stops": by_topic(document.stops),
        }
    if document.slots != NO_SLOTS:
        # Likewise for jobs alone that have had the naming SubtaskAndSlot.
        body["slotIds"] = {"parallelism": document.slots.subtasks, "poolSize": document.slots.slots}
    if document.transactional:
        # Before the first checkpoint alone; what is written later tells it by hint or slots.
        body["transactional"] = True
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    size = len(text.encode())
    if size > MAX_DOCUMENT_BYTES:
        msg = f"the checkpoint document needs {size} bytes, the limit is {MAX_DOCUMENT_BYTES}"
        raise CheckpointTooLarge(msg)
    return text


def decode(text: str, *, job_uid: str) -> CheckpointDocument:
    """Reads a document back, trusting nothing in it.

    The ranges of committables are not stored: the splits, the parallelism and the owner formula give them back.

    :raises CheckpointCorrupt: truncated, not JSON, over the cap, an unknown format version, a field missing,
        unknown or of the wrong type, or values that contradict each other.
    :raises CheckpointForeign: written by a job with another UID.
    """
    reader = parse(text, "the checkpoint document", limit=MAX_DOCUMENT_BYTES)
    version = reader.integer("formatVersion")
    if version != FORMAT_VERSION:
        msg = f"the checkpoint document has format version {version}, this release reads {FORMAT_VERSION}"
        raise CheckpointCorrupt(msg, remedy="run the release of the image that wrote it, or a newer one")
    uid = reader.string("jobUid")
    if uid != job_uid:
        msg = f"the checkpoint document belongs to the job with UID {uid!r}, this job's is {job_uid!r}"
        raise CheckpointForeign(msg)
    try:
        return _document(reader, uid)
    except CheckpointCorrupt:
        raise
    except KafkaSparkJobError as error:
        msg = f"the checkpoint document contradicts itself: {error.message}"
        raise CheckpointCorrupt(msg) from error


def _document(reader: StrictReader, uid: str) -> CheckpointDocument:
    parallelism = reader.integer("parallelism", low=1, below=_BELOW)
    checkpoint_id = reader.integer("checkpointId")
    aligned = reader.boolean("aligned")
    bounds, topic_ids = without_ids(reader.mapping("splits"), "splits")
    splits = tuple(sorted(_splits(bounds)))
    owned = splits_by_subtask(splits, parallelism) if aligned else {}
    hint = StrictReader(reader.mapping("hint"), "hint")
    counters = StrictReader(reader.mapping("counters"), "counters")
    engine = reader.string("engine")
    if len(engine) > MAX_ENGINE_BYTES:
        msg = f"engine is larger than {MAX_ENGINE_BYTES} bytes"
        raise CheckpointCorrupt(msg)
    committables = tuple(
        _committable(StrictReader(item, f"committables[{index}]"), checkpoint_id, parallelism, owned)
        for index, item in enumerate(reader.items("committables"))
    )
    if aligned:
        _check_ranges(committables)
    if len({one.transactional_id for one in committables}) != len(committables):
        msg = "two committables name the same transactional id"
        raise CheckpointCorrupt(msg)
    bounded = StrictReader(
        reader.mapping_or_none("bounded") or {"stopping": "", "finished": False, "stops": {}}, "bounded"
    )
    reach = reader.mapping_or_none("slotIds")
    slots = StrictReader({"parallelism": 0, "poolSize": 0} if reach is None else reach, "slotIds")
    document = CheckpointDocument(
        job_uid=uid,
        attempt=reader.integer("attempt", low=1, below=_BELOW),
        checkpoint_id=checkpoint_id,
        created_at=reader.string("createdAt"),
        parallelism=parallelism,
        prefix=reader.string("transactionalIdPrefix"),
        former_prefixes=tuple(string_of(item, "formerPrefixes") for item in reader.items("formerPrefixes")),
        hint=TransactionalIdHint(hint.integer("lastParallelism"), hint.integer("nextFreeTransactionalId")),
        slots=SlotBounds(slots.integer("parallelism"), slots.integer("poolSize")),
        transactional=reader.boolean("transactional", default=False),
        splits=splits,
        aligned=aligned,
        committables=committables,
        witness_group=reader.string("witnessGroup"),
        engine=engine,
        engine_has_state=reader.boolean("engineHasState"),
        drained=reader.boolean("drained"),
        stops=offsets_of(bounded.mapping("stops"), "stops"),
        stopping=bounded.string("stopping"),
        finished=bounded.boolean("finished"),
        cluster_id=reader.string("clusterId", default=""),
        topic_ids=topic_ids,
        redeploy_nonce=reader.integer("redeployNonce", default=0),
        counters=Counters(
            records_in=counters.integer("recordsIn"),
            records_out=counters.integer("recordsOut"),
            records_skipped=counters.integer("recordsSkipped", default=0),
            records_dead_lettered=counters.integer("recordsDeadLettered", default=0),
            transactions_committed=counters.integer("transactionsCommitted"),
            transactions_aborted=counters.integer("transactionsAborted"),
        ),
    )
    for one in (reader, hint, counters, bounded, slots):
        one.finish()
    _check_ids(document)
    return document


def _check_ranges(committables: Sequence[KafkaCommittable]) -> None:
    """Where each subtask wrote what it read, whoever wrote has read something."""
    for one in committables:
        if (one.records or one.dead_letters) and not one.ranges:
            msg = (
                f"the committable {one.transactional_id} of subtask {one.subtask} holds records, but none of that"
                " subtask's splits has any"
            )
            raise CheckpointCorrupt(msg)


def _check_ids(document: CheckpointDocument) -> None:
    """A document must not make a driver commit what belongs to another job."""
    for prefix in document.prefixes:
        check_prefix(prefix)
    for one in document.committables:
        its_prefix = next((each for each in document.prefixes if is_of_prefix(one.transactional_id, each)), None)
        if its_prefix is None or one.transactional_id == offsets_id(its_prefix):  # the driver's is no subtask's
            msg = f"the committable {one.transactional_id} is of none of the prefixes {', '.join(document.prefixes)}"
            raise CheckpointCorrupt(msg)
        if one.attempt > document.attempt:
            msg = (
                f"attempt {one.attempt} wrote the committable {one.transactional_id}, after attempt {document.attempt}"
            )
            raise CheckpointCorrupt(msg)
        place = place_of(one.transactional_id, its_prefix)
        if place is not None and (place.subtask != one.subtask or place not in document.slots):
            msg = f"subtask {one.subtask} has no id {one.transactional_id}, as far as slotIds reach"
            raise CheckpointCorrupt(msg)


def _splits(body: Mapping[str, Any]) -> list[KafkaPartitionSplit]:
    splits = []
    for partition, bounds in partitions_of(body, "splits"):
        if not isinstance(bounds, list) or len(bounds) != 2 or not all(is_offset(bound) for bound in bounds):
            msg = f"split {partition} must be [start, stop], two offsets"
            raise CheckpointCorrupt(msg)
        splits.append(KafkaPartitionSplit(partition, bounds[0], bounds[1]))
    return splits


def _committable(
    reader: StrictReader,
    checkpoint_id: int,
    parallelism: int,
    owned: Mapping[int, tuple[KafkaPartitionSplit, ...]],
) -> KafkaCommittable:
    subtask = reader.integer("subtask")
    if subtask >= parallelism:
        msg = f"{reader.where}.subtask {subtask} is not below the parallelism {parallelism}"
        raise CheckpointCorrupt(msg)
    # Of earlier releases, which wrote 1 and looked at nothing: EndTxn's version alone decides (case P12).
    reader.integer("transactionVersion", default=1)
    committable = KafkaCommittable(
        transactional_id=reader.string("transactionalId"),
        producer_id=reader.integer("producerId"),
        producer_epoch=reader.integer("producerEpoch"),
        checkpoint_id=checkpoint_id,
        subtask=subtask,
        records=reader.integer("records"),
        attempt=reader.integer("attempt", default=0, below=_BELOW),
        dead_letters=reader.integer("deadLetters", default=0),
        start_time_ms=reader.integer("startTimeMs", default=0),
        ranges=owned.get(subtask, ()),
    )
    reader.finish()
    return committable
