"""Spark's own offset and commit log, rebuilt from the checkpoint document: after a crash there is one truth.

A query resumes at batch N if its folder has ``metadata`` (the query's id), ``offsets/N-2``, ``offsets/N-1`` and
``commits/N-1``. Batch B is checkpoint B+1. Spark's offset is only the coordinator's plan number; the offsets of Kafka
are in the document and nowhere else.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from sparkapp.checkpoint.volume import writing_to
from sparkapp.model.errors import CheckpointCorrupt

_NAMESPACE = uuid.UUID("6f6a5c3e-2f0b-4a59-9a57-0c7c0f6c2f11")
_DEFAULT_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the document keeps for this engine: the plan number of its last batch and Spark's line about that batch
    (watermark, batch time, the settings that must not change under operators' state)."""

    plan: int = 0
    metadata: str = _DEFAULT_METADATA


def encode_engine(state: EngineState) -> str:
    return json.dumps({"plan": state.plan, "metadata": state.metadata}, separators=(",", ":"))


def decode_engine(text: str) -> EngineState:
    """:raises CheckpointCorrupt: not a text of this engine."""
    if not text:
        return EngineState()
    try:
        body = json.loads(text)
        plan, metadata = body["plan"], body["metadata"]
        if type(plan) is not int or not isinstance(json.loads(metadata), dict) or "\n" in metadata:
            raise ValueError(text)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"the checkpoint document's engine text is not readable: {error!r}"
        raise CheckpointCorrupt(msg) from error
    return EngineState(plan, metadata)


def watermark_millis(engine: str) -> int | None:
    """The event-time watermark that the document's last batch ran with, in ms since 1970; None where there is none."""
    return json.loads(decode_engine(engine).metadata).get("batchWatermarkMs") or None


def rewound(engine: str) -> str:
    """The engine's text for a query that goes back in its source: without the watermark, which was of later records."""
    state = decode_engine(engine)
    metadata = {**json.loads(state.metadata), "batchWatermarkMs": 0}
    return encode_engine(EngineState(state.plan, json.dumps(metadata, separators=(",", ":"))))


def rebuild(folder: Path, *, job_uid: str, checkpoint_id: int, engine: EngineState) -> None:
    """Makes the query resume with batch ``checkpoint_id``, whatever the folder said before.

    Operators' state (``state/``) is left alone: Spark reads the version that belongs to the last completed batch, and
    writes later ones again.

    :raises VolumeFull: and VolumeUnusable: half a log is there; the next attempt begins with this again.
    """
    with writing_to(folder):
        _rebuild(folder, job_uid, checkpoint_id, engine)


def _rebuild(folder: Path, job_uid: str, checkpoint_id: int, engine: EngineState) -> None:
    for log in ("offsets", "commits", "sources"):
        shutil.rmtree(folder / log, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    query_id = uuid.uuid5(_NAMESPACE, job_uid)
    _put(folder, "metadata", json.dumps({"id": str(query_id)}))
    last = checkpoint_id - 1
    if last < 0:
        return
    if last >= 1:
        _put(folder / "offsets", str(last - 1), _offsets(EngineState(max(engine.plan - 1, 0), engine.metadata)))
    _put(folder / "offsets", str(last), _offsets(engine))
    watermark = json.loads(engine.metadata).get("batchWatermarkMs", 0)
    _put(folder / "commits", str(last), "v1\n" + json.dumps({"nextBatchWatermarkMs": watermark}))


def read_metadata(folder: Path, batch_id: int) -> str:
    """Spark's line about a batch, which it wrote before the batch began."""
    lines = (folder / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return lines[1] if len(lines) > 1 else _DEFAULT_METADATA


def has_operator_state(folder: Path) -> bool:
    """Whether the query keeps state (aggregations, deduplication, joins): Spark makes the folder at the first batch."""
    return (folder / "state").is_dir()


def _offsets(state: EngineState) -> str:
    return "v1\n" + state.metadata + "\n" + json.dumps({"plan": state.plan})


def _put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / f".{name}.crc").unlink(missing_ok=True)
