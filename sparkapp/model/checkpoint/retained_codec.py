"""A retained checkpoint as JSON text; read as untrusted input, as the checkpoint document is."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sparkapp.model.checkpoint.codec import MAX_DOCUMENT_BYTES
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, checkpoint_of_key
from sparkapp.model.encoding.strict_json import StrictReader, by_topic, offsets_of, parse, without_ids
from sparkapp.model.errors import CheckpointCorrupt, CheckpointTooLarge, CheckpointUnusable

RETAINED_FORMAT_VERSION = 1
MAX_RETAINED_BYTES = MAX_DOCUMENT_BYTES
"""Of all retained checkpoints together, and so of each: a ConfigMap holds 1 MiB, its metadata included."""


def encode_retained(checkpoint: RetainedCheckpoint) -> str:
    """:raises CheckpointTooLarge: it exceeds :data:`MAX_RETAINED_BYTES`, so it cannot be retained."""
    body: dict[str, Any] = {
        "formatVersion": RETAINED_FORMAT_VERSION,
        "jobUid": checkpoint.job_uid,
        "attempt": checkpoint.attempt,
        "checkpointId": checkpoint.checkpoint_id,
        "createdAt": checkpoint.created_at,
        "orderly": checkpoint.orderly,
        "offsets": by_topic(checkpoint.offsets, ids=checkpoint.topic_ids),
        "recordsIn": checkpoint.records_in,
        "recordsOut": checkpoint.records_out,
    }
    if checkpoint.cluster_id:
        body["clusterId"] = checkpoint.cluster_id
    if checkpoint.stopping:
        body["bounded"] = {"stopping": checkpoint.stopping, "stops": by_topic(checkpoint.stops)}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    size = len(text.encode())
    if size > MAX_RETAINED_BYTES:
        msg = f"checkpoint {checkpoint.checkpoint_id} needs {size} bytes to be kept, the limit is {MAX_RETAINED_BYTES}"
        raise CheckpointTooLarge(msg)
    return text


def decode_retained(text: str, *, key: str, job_uid: str) -> RetainedCheckpoint:
    """The retained checkpoint of a text, which is untrusted input.

    :param key: its name in the ConfigMap or folder, which must name the same checkpoint.
    :raises CheckpointUnusable: the text is truncated, too large, of another format version or of another job. Or a
        field is missing, unknown or of the wrong type. The message names the key.
    """
    try:
        return _decode(text, key, job_uid)
    except CheckpointCorrupt as error:
        msg = f"the retained checkpoint {key} cannot be used: {error.message}"
        raise CheckpointUnusable(msg) from error


def decode_snapshot(text: str, *, job_uid: str = "") -> RetainedCheckpoint:
    """The checkpoint of a snapshot, which is as untrusted.

    :param job_uid: of the job that wrote it; empty for any job.
    :raises CheckpointUnusable: as :func:`decode_retained`.
    """
    try:
        return _decode(text, "", job_uid)
    except CheckpointCorrupt as error:
        msg = f"the checkpoint of the snapshot cannot be used: {error.message}"
        raise CheckpointUnusable(msg) from error


def _decode(text: str, key: str, job_uid: str) -> RetainedCheckpoint:
    """:param key: empty for no key, and ``job_uid`` for any job."""
    reader = parse(text, "the text", limit=MAX_RETAINED_BYTES)
    version = reader.integer("formatVersion")
    if version != RETAINED_FORMAT_VERSION:
        msg = f"it has format version {version}, this release reads {RETAINED_FORMAT_VERSION}"
        raise CheckpointCorrupt(msg)
    uid = reader.string("jobUid")
    if job_uid and uid != job_uid:
        msg = f"it belongs to the job with UID {uid!r}, this job's is {job_uid!r}"
        raise CheckpointCorrupt(msg)
    bounded = StrictReader(reader.mapping_or_none("bounded") or {"stopping": "", "stops": {}}, "bounded")
    offsets, topic_ids = without_ids(reader.mapping("offsets"), "offsets")
    checkpoint = RetainedCheckpoint(
        job_uid=uid,
        attempt=reader.integer("attempt", low=1),
        checkpoint_id=reader.integer("checkpointId", low=1),
        created_at=_time(reader.string("createdAt")),
        orderly=reader.boolean("orderly"),
        offsets=offsets_of(offsets, "offsets"),
        cluster_id=reader.string("clusterId", default=""),
        topic_ids=topic_ids,
        stops=offsets_of(bounded.mapping("stops"), "stops"),
        stopping=bounded.string("stopping"),
        records_in=reader.integer("recordsIn"),
        records_out=reader.integer("recordsOut"),
    )
    reader.finish()
    bounded.finish()
    if checkpoint.stops and not checkpoint.stopping:
        msg = "bounded has stops without stopping"
        raise CheckpointCorrupt(msg)
    if key and checkpoint_of_key(key) != checkpoint.checkpoint_id:
        msg = f"it is checkpoint {checkpoint.checkpoint_id}"
        raise CheckpointCorrupt(msg)
    return checkpoint


def _time(text: str) -> str:
    try:
        if datetime.fromisoformat(text).tzinfo is not None:
            return text
    except ValueError:
        pass
    msg = f"createdAt {text[:40]!r} is not a time"
    raise CheckpointCorrupt(msg)
