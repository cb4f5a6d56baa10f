"""A retained checkpoint as JSON text; read as untrusted input, as the checkpoint document is."""

from __future__ import annotations

from sparkapp.model.checkpoint.codec import HEAD, MAX_DOCUMENT_BYTES, Head, text_of
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, checkpoint_of_key
from sparkapp.model.encoding.json_parts import DOCUMENT, Unreadable, decode_part, encode_part
from sparkapp.model.encoding.strict_json import by_topic, offsets_of, parse, without_ids
from sparkapp.model.errors import CheckpointUnusable

RETAINED_FORMAT_VERSION = 1
MAX_RETAINED_BYTES = MAX_DOCUMENT_BYTES
"""Of all retained checkpoints together, and so of each: a ConfigMap holds 1 MiB, its metadata included."""


def encode_retained(checkpoint: RetainedCheckpoint) -> str:
    """:raises CheckpointTooLarge: it exceeds :data:`MAX_RETAINED_BYTES`, so it cannot be retained."""
    return text_of(
        {
            "formatVersion": RETAINED_FORMAT_VERSION,
            **encode_part(checkpoint, DOCUMENT),
            "offsets": by_topic(checkpoint.offsets, ids=checkpoint.topic_ids),
        },
        f"checkpoint {checkpoint.checkpoint_id} needs {{}} bytes to be kept",
    )


def decode_retained(text: str, *, key: str, job_uid: str) -> RetainedCheckpoint:
    """The retained checkpoint of a text, which is untrusted input.

    :param key: its name in the ConfigMap or folder, which must name the same checkpoint.
    :raises CheckpointUnusable: the text is truncated, too large, of another format version or of another job. Or a
        field is missing, unknown or of the wrong type. The message names the key.
    """
    try:
        return _decode(text, key, job_uid)
    except Unreadable as error:
        msg = f"the retained checkpoint {key} cannot be used: {error}"
        raise CheckpointUnusable(msg) from error


def decode_snapshot(text: str, *, job_uid: str = "") -> RetainedCheckpoint:
    """The checkpoint of a snapshot, which is as untrusted.

    :param job_uid: of the job that wrote it; empty for any job.
    :raises CheckpointUnusable: as :func:`decode_retained`.
    """
    try:
        return _decode(text, "", job_uid)
    except Unreadable as error:
        msg = f"the checkpoint of the snapshot cannot be used: {error}"
        raise CheckpointUnusable(msg) from error


def _decode(text: str, key: str, job_uid: str) -> RetainedCheckpoint:
    """:param key: empty for no key, and ``job_uid`` for any job."""
    body = parse(text, "the text", limit=MAX_RETAINED_BYTES)
    head = decode_part(Head, body, "document", HEAD)
    if head.format_version != RETAINED_FORMAT_VERSION:
        msg = f"it has format version {head.format_version}, this release reads {RETAINED_FORMAT_VERSION}"
        raise Unreadable(msg)
    if job_uid and head.job_uid != job_uid:
        msg = f"it belongs to the job with UID {head.job_uid!r}, this job's is {job_uid!r}"
        raise Unreadable(msg)
    del body["formatVersion"]
    if "offsets" not in body:
        msg = "document.offsets is missing"
        raise Unreadable(msg)
    offsets, topic_ids = without_ids(body.pop("offsets"), "offsets")
    checkpoint = decode_part(
        RetainedCheckpoint, body, "document", DOCUMENT, offsets=offsets_of(offsets, "offsets"), topic_ids=topic_ids
    )
    if checkpoint.stops and not checkpoint.stopping:
        msg = "bounded has stops without stopping"
        raise Unreadable(msg)
    if key and checkpoint_of_key(key) != checkpoint.checkpoint_id:
        msg = f"it is checkpoint {checkpoint.checkpoint_id}"
        raise Unreadable(msg)
    return checkpoint
