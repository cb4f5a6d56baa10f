"""The checkpoint document as JSON text.

The job's own pods may write the ConfigMap that holds it, so the text is untrusted input. It is limited in size, every
field is checked, and it is bound to the job's UID. An unreadable document is an error, never an empty start
(FLINK-40401, FLINK-40414 and FLINK-40587 show the alternative).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters, LocalPart
from sparkapp.model.checkpoint.naming import NO_SLOTS, SlotBounds
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.encoding.strict_json import (
    StrictReader,
    by_topic,
    is_offset,
    offsets_of,
    parse,
    partitions_of,
    string_of,
    without_ids,
)
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign, CheckpointTooLarge, KafkaSparkJobError
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint

FORMAT_VERSION = 1
LOCAL_FORMAT_VERSION = 2
"""Of documents of the local pace. Releases without it must refuse them: the group's offsets decide, not theirs."""
MAX_DOCUMENT_BYTES = 768 * 1024
"""Three quarters of the 1 MiB that a ConfigMap holds. A larger document is neither written nor read."""
MAX_ENGINE_BYTES = 64 * 1024
_NOT_PLACED = "new"
"""Behind the offsets of a partition in a document of the local pace."""
_BELOW = 1 << 31
"""Limit of attempt numbers and of the parallelism: both are 32-bit integers in Kubernetes and Kafka."""
_LONGEST_TOPIC = 249
_COUNTED_BELOW = 10**18
"""Limit of checkpoint numbers and of ids by hint, which the next document increases. Keys of retained checkpoints have
at most 18 digits. A thousand checkpoints or ids a millisecond reach it after 30,000 years."""


def encode(document: CheckpointDocument) -> str:
    """The document as JSON text.

    :raises CheckpointTooLarge: it exceeds :data:`MAX_DOCUMENT_BYTES`, or the engine's text exceeds
        :data:`MAX_ENGINE_BYTES`. Nothing is written.
    """
    if len(document.engine) > MAX_ENGINE_BYTES:
        msg = f"the engine's text needs {len(document.engine)} characters, the limit is {MAX_ENGINE_BYTES}"
        remedy = "shorten settings spark.sql.streaming.* in spec.sparkConf: Spark keeps them with each micro-batch"
        raise CheckpointTooLarge(msg, remedy=remedy)
    local = document.local
    splits = by_topic(
        {
            split.partition: [split.start, split.stop]
            + ([] if local is None or split.partition in local.placed else [_NOT_PLACED])
            for split in document.splits
        },
        ids=document.topic_ids,
    )
    body: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION if local is None else LOCAL_FORMAT_VERSION,
        "jobUid": document.job_uid,
        "attempt": document.attempt,
        "checkpointId": document.checkpoint_id,
        "createdAt": document.created_at,
        "parallelism": document.parallelism,
        "transactionalIdPrefix": document.prefix,
        "formerPrefixes": list(document.previous_prefixes),
        "hint": {
            "lastParallelism": document.hint.last_parallelism,
            "nextFreeTransactionalId": document.hint.next_free_transactional_id,
        },
        "splits": splits,
        "aligned": document.aligned,
        "committables": [
            {
                "transactionalId": committable.transactional_id,
                "producerId": committable.producer_id,
                "producerEpoch": committable.producer_epoch,
                "subtask": committable.subtask,
                "records": committable.records,
                **({"attempt": committable.attempt} if committable.attempt else {}),
                **({"deadLetters": committable.dead_letters} if committable.dead_letters else {}),
                **({"startTimeMs": committable.start_time_ms} if committable.start_time_ms else {}),
            }
            for committable in document.committables
        ],
        "witnessGroup": document.evidence_group,
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
        # Only for bounded jobs: releases without bounded jobs can read the documents of other jobs.
        body["bounded"] = {
            "stopping": document.stopping,
            "finished": document.finished,
            "stops": by_topic(document.stops),
        }
    if document.slots != NO_SLOTS:
        # Only for jobs that have had the naming SubtaskAndSlot, for the same reason.
        body["slotIds"] = {"parallelism": document.slots.subtasks, "poolSize": document.slots.slots}
    if document.transactional:
        # Only before the first checkpoint; later documents have a hint or slots instead.
        body["transactional"] = True
    if document.sink_topics:
        # Not behind an orderly stop, so that releases before this field can follow.
        body["sinkTopics"] = sorted(document.sink_topics)
    if local is not None:
        # Only where partitions were left out, so that releases before this field read all others.
        forgot = {"forgotAt": local.forgot_at} if local.forgot_at else {}
        body["local"] = {"era": local.era, "ended": local.ended, **forgot}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    size = len(text.encode())
    if size > MAX_DOCUMENT_BYTES:
        msg = f"the checkpoint document needs {size} bytes, the limit is {MAX_DOCUMENT_BYTES}"
        raise CheckpointTooLarge(msg)
    return text


def decode(text: str, *, job_uid: str) -> CheckpointDocument:
    """The document of a text, which is untrusted input.

    The ranges of committables are not stored. They are derived from the splits, the parallelism and the owner formula.

    :raises CheckpointCorrupt: the text is truncated, too large, not JSON or of an unknown format version. Or a field is
        missing, unknown or of the wrong type. Or values contradict each other.
    :raises CheckpointForeign: a job with another UID wrote it.
    """
    reader = parse(text, "the checkpoint document", limit=MAX_DOCUMENT_BYTES)
    version = reader.integer("formatVersion")
    if version not in {FORMAT_VERSION, LOCAL_FORMAT_VERSION}:
        msg = f"the checkpoint document has format version {version}, this release reads {LOCAL_FORMAT_VERSION}"
        raise CheckpointCorrupt(msg, remedy="set spec.image to the release that wrote it, or a newer release")
    uid = reader.string("jobUid")
    if uid != job_uid:
        msg = f"the checkpoint document belongs to the job with UID {uid!r}, this job's is {job_uid!r}"
        raise CheckpointForeign(msg)
    try:
        return _document(reader, uid, is_local=version == LOCAL_FORMAT_VERSION)
    except CheckpointCorrupt:
        raise
    except KafkaSparkJobError as error:
        msg = f"the checkpoint document contradicts itself: {error.message}"
        raise CheckpointCorrupt(msg) from error


def _document(reader: StrictReader, uid: str, *, is_local: bool) -> CheckpointDocument:
    parallelism = reader.integer("parallelism", low=1, below=_BELOW)
    checkpoint_id = reader.integer("checkpointId", below=_COUNTED_BELOW)
    aligned = reader.boolean("aligned")
    bounds, topic_ids = without_ids(reader.mapping("splits"), "splits")
    placed: set[TopicPartition] = set()
    splits = tuple(sorted(_splits(bounds, placed if is_local else None)))
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
        previous_prefixes=tuple(string_of(item, "formerPrefixes") for item in reader.items("formerPrefixes")),
        hint=TransactionalIdHint(
            hint.integer("lastParallelism", below=_BELOW), hint.integer("nextFreeTransactionalId", below=_COUNTED_BELOW)
        ),
        slots=SlotBounds(slots.integer("parallelism"), slots.integer("poolSize")),
        transactional=reader.boolean("transactional", default=False),
        splits=splits,
        sink_topics=_topics(reader.items("sinkTopics", default=[])),
        aligned=aligned,
        committables=committables,
        evidence_group=reader.string("witnessGroup"),
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
        local=_local(StrictReader(reader.mapping("local"), "local"), placed) if is_local else None,
    )
    for part in (reader, hint, counters, bounded, slots):
        part.finish()
    document.require_consistent()
    return document


def _topics(items: list[Any]) -> frozenset[str]:
    topics = [string_of(item, "sinkTopics") for item in items]
    if len(set(topics)) < len(topics) or not all(0 < len(topic) <= _LONGEST_TOPIC for topic in topics):
        msg = "sinkTopics must be names of topics, each once"
        raise CheckpointCorrupt(msg)
    return frozenset(topics)


def _local(reader: StrictReader, placed: set[TopicPartition]) -> LocalPart:
    era, ended = reader.integer("era", low=1, below=_BELOW), reader.boolean("ended")
    forgot_at = reader.integer("forgotAt", default=0)
    reader.finish()
    return LocalPart(era=era, placed=frozenset(placed), ended=ended, forgot_at=forgot_at)


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
    # Earlier releases wrote 1 and never read it: only EndTxn's version decides (case P12).
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
