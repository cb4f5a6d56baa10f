"""Spark's own offset and commit log, rebuilt from the checkpoint document: after a crash there is one truth.

A query resumes at batch N if its folder has ``metadata`` (the query's id), ``offsets/N-2``, ``offsets/N-1`` and
``commits/N-1``. Spark's offset is only the coordinator's plan number; the offsets of Kafka are in the document and
nowhere else. Batches count from the checkpoint at which operators began to keep state, for a batch's number is the
version of the state that it begins with. Without state each attempt is a new query to Spark.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from sparkapp.checkpoint.volume import writing_to
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import CheckpointCorrupt, StateUncertain

_NAMESPACE = uuid.UUID("6f6a5c3e-2f0b-4a59-9a57-0c7c0f6c2f11")
_STATE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's name in the log, whatever the session's setting of that name says after the first batch."""
_DEFAULT_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the document keeps for this engine.

    :param plan: the plan number of its last batch.
    :param metadata: Spark's line about that batch (watermark, batch time, the settings that must not change under
        operators' state).
    :param base: the checkpoint before batch 0: batch B is checkpoint ``base + B + 1``.
    :param watermark: in ms since 1970, that the batch after the last one begins with; None where the document does not
        say, and then it is the last one's own.
    :param attempt: whose folder has its operators' state (:mod:`sparkapp.spark.operator_state`); None where the
        document does not say.
    :param former: in ms since 1970, the watermark of the batch before the last one; None where the document does not
        say.
    """

    plan: int = 0
    metadata: str = _DEFAULT_METADATA
    base: int = 0
    watermark: int | None = None
    former: int | None = None
    attempt: int | None = None

    @property
    def batch_watermark(self) -> int:
        """The event-time watermark that the last batch ran with, in ms since 1970; 0 where there is none."""
        return int(json.loads(self.metadata).get("batchWatermarkMs") or 0)

    @property
    def next_watermark(self) -> int:
        """The watermark of the batch that follows, 0 where there is none."""
        return self.batch_watermark if self.watermark is None else self.watermark

    @property
    def state_partitions(self) -> int:
        """Partitions of operators' state, which Spark fixes with a query's first batch; 0 before it."""
        return int(json.loads(self.metadata).get("conf", {}).get(_STATE_PARTITIONS, 0))


def encode_engine(state: EngineState) -> str:
    body: dict[str, object] = {"plan": state.plan, "metadata": state.metadata, "base": state.base}
    if state.watermark is not None:
        body["watermark"] = state.watermark
    if state.former is not None:
        body["formerWatermark"] = state.former
    if state.attempt is not None:
        body["stateAttempt"] = state.attempt
    return json.dumps(body, separators=(",", ":"))


def decode_engine(text: str) -> EngineState:
    """:raises CheckpointCorrupt: not a text of this engine."""
    if not text:
        return EngineState()
    try:
        body = json.loads(text)
        plan, metadata, base = body["plan"], body["metadata"], body.get("base", 0)
        optional = [body.get("watermark"), body.get("formerWatermark"), body.get("stateAttempt")]
        known = type(plan) is int and type(base) is int and all(type(one) in {int, type(None)} for one in optional)
        if not known or base < 0 or not isinstance(json.loads(metadata), dict) or "\n" in metadata:
            raise ValueError(text)
        state = EngineState(plan, metadata, base, *optional)
        least = min(state.batch_watermark, state.next_watermark, state.former or 0, state.state_partitions)
        if least < 0 or (state.attempt is not None and state.attempt < 1):
            raise ValueError(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"the checkpoint document's engine text is not readable: {error!r}"
        raise CheckpointCorrupt(msg) from error
    return state


def restored_engine(document: CheckpointDocument) -> EngineState:
    """How the query of this attempt begins: where its operators' state is, or anew where they keep none.

    :raises CheckpointCorrupt: the document's numbers do not fit together.
    """
    state = decode_engine(document.engine)
    if not document.engine_has_state:
        return EngineState(plan=state.plan, base=document.checkpoint_id)
    if state.base >= document.checkpoint_id:
        msg = f"operators keep state since checkpoint {state.base}, and the document is of {document.checkpoint_id}"
        raise CheckpointCorrupt(msg)
    return state


def watermark_millis(engine: str) -> int | None:
    """The event-time watermark that the document's last batch ran with, in ms since 1970; None where there is none."""
    return decode_engine(engine).batch_watermark or None


def rewound(engine: str) -> str:
    """The engine's text for a query that goes back in its source: without the watermark, which was of later records."""
    return encode_engine(replace(_with_watermark(decode_engine(engine), 0), watermark=None, former=None))


def undone(document: CheckpointDocument) -> CheckpointDocument:
    """The document of a checkpoint of which nothing is or will be visible, for a query that runs its batch again.

    Its number stays, for no number stands for two sets of offsets: batches count from one checkpoint later instead, and
    the batch begins with the version of operators' state and with the watermarks that it began with.

    :raises StateUncertain: a former release wrote it, without what the batch began with.
    """
    if not document.engine_has_state:
        return document
    state = decode_engine(document.engine)
    if state.former is None:
        msg = f"checkpoint {document.checkpoint_id} was lost and its operators' state has moved on"
        raise StateUncertain(msg)
    before = replace(
        _with_watermark(state, state.former), base=state.base + 1, watermark=state.batch_watermark, former=None
    )
    return replace(document, engine=encode_engine(before), engine_has_state=document.checkpoint_id > before.base)


def _with_watermark(state: EngineState, millis: int) -> EngineState:
    """As if the last batch had run with this watermark."""
    metadata = {**json.loads(state.metadata), "batchWatermarkMs": millis}
    return replace(state, metadata=json.dumps(metadata, separators=(",", ":")))


def rebuild(folder: Path, *, job_uid: str, checkpoint_id: int, engine: EngineState, sources: int) -> None:
    """Makes the query resume with the batch after ``checkpoint_id``, whatever the folder said before.

    Operators' state (``state/``) is left alone, see :mod:`sparkapp.spark.operator_state`.

    :param sources: how often the transform reads the source: Spark keeps an offset for each.
    :raises VolumeFull: and VolumeUnusable: half a log is there; the next attempt begins with this again.
    """
    with writing_to(folder):
        _rebuild(folder, job_uid, checkpoint_id, engine, sources)


def _rebuild(folder: Path, job_uid: str, checkpoint_id: int, engine: EngineState, sources: int) -> None:
    for log in ("offsets", "commits", "sources"):
        shutil.rmtree(folder / log, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    query_id = uuid.uuid5(_NAMESPACE, job_uid)
    _put(folder, "metadata", json.dumps({"id": str(query_id)}))
    last = checkpoint_id - engine.base - 1
    if last < 0:
        return
    if last >= 1:
        _put(folder / "offsets", str(last - 1), _offsets(max(engine.plan - 1, 0), engine.metadata, sources))
    _put(folder / "offsets", str(last), _offsets(engine.plan, engine.metadata, sources))
    _put(folder / "commits", str(last), "v1\n" + json.dumps({"nextBatchWatermarkMs": engine.next_watermark}))


def watermark_before(folder: Path, batch_id: int) -> int:
    """The watermark of the batch before this one, in ms since 1970; 0 where there is none."""
    return EngineState(metadata=read_metadata(folder, batch_id - 1)).batch_watermark if batch_id > 0 else 0


def read_metadata(folder: Path, batch_id: int) -> str:
    """Spark's line about a batch, which it wrote before the batch began."""
    lines = (folder / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return lines[1] if len(lines) > 1 else _DEFAULT_METADATA


def _offsets(plan: int, metadata: str, sources: int) -> str:
    return "\n".join(["v1", metadata, *[json.dumps({"plan": plan})] * sources])


def _put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / f".{name}.crc").unlink(missing_ok=True)
