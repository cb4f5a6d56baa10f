"""Spark's own offset and commit log, rebuilt from the checkpoint document: after a crash there is one truth (ADR 2).

A query resumes at batch N if its folder has ``metadata`` (the query's id), ``offsets/N-2``, ``offsets/N-1`` and
``commits/N-1``. Spark's offset is only the planner's plan number; the offsets of Kafka are in the document alone.

A batch begins with the version of query state that has the batch's number. So batches count from the checkpoint at
which the transform began to keep state. Without state each attempt is a new query to Spark.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sparkapp.checkpoint.volume import writing_to
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CheckpointCorrupt, CheckpointUnusable, StateUncertain
from sparkapp.model.job.spark_settings import PROVIDER, SHUFFLE_PARTITIONS

_NAMESPACE = uuid.UUID("6f6a5c3e-2f0b-4a59-9a57-0c7c0f6c2f11")
LOGS = ("offsets", "commits", "sources")
"""Folders of Spark's log, next to query state."""
_DEFAULT_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


@dataclass(frozen=True, slots=True)
class EngineState:
    """The engine's part of the checkpoint document.

    :param plan: plan number of the last batch.
    :param metadata: Spark's line about the last batch: watermark, batch time, and settings that query state pins.
    :param base: the checkpoint before batch 0: batch B is checkpoint ``base + B + 1``.
    :param watermark: with which the next batch begins, in ms since 1970; None, from an earlier release, for the last
        batch's watermark.
    :param attempt: whose folder has the query state (:mod:`sparkapp.spark.state.state_store_files`); None if the
        document does not say.
    :param retained: the checkpoint whose retained state it is; None for the folder of ``attempt``.
    :param previous_watermark: of the batch before the last, in ms since 1970; None if the document does not say.
    """

    plan: int = 0
    metadata: str = _DEFAULT_METADATA
    base: int = 0
    watermark: int | None = None
    previous_watermark: int | None = None
    attempt: int | None = None
    retained: int | None = None

    @property
    def batch_watermark(self) -> int:
        """The event-time watermark of the last batch, in ms since 1970; 0 if there is none."""
        return int(json.loads(self.metadata).get("batchWatermarkMs") or 0)

    @property
    def next_watermark(self) -> int:
        """The watermark of the next batch, in ms since 1970; 0 if there is none."""
        return self.batch_watermark if self.watermark is None else self.watermark

    @property
    def state_partitions(self) -> int:
        """Partitions of query state, which Spark fixes with a query's first batch; 0 before it."""
        return int(json.loads(self.metadata).get("conf", {}).get(SHUFFLE_PARTITIONS, 0))

    @property
    def provider(self) -> str:
        """Class of the provider of query state, which Spark fixes likewise; empty before it."""
        return str(json.loads(self.metadata).get("conf", {}).get(PROVIDER, ""))


def encode_engine(state: EngineState) -> str:
    """The text for ``CheckpointDocument.engine``; called once a checkpoint."""
    body: dict[str, object] = {"plan": state.plan, "metadata": state.metadata, "base": state.base}
    if state.watermark is not None:
        body["watermark"] = state.watermark
    if state.previous_watermark is not None:
        body["formerWatermark"] = state.previous_watermark
    if state.attempt is not None:
        body["stateAttempt"] = state.attempt
    if state.retained is not None:
        body["retainedState"] = state.retained
    return json.dumps(body, separators=(",", ":"))


def decode_engine(text: str) -> EngineState:
    """Reads what :func:`encode_engine` wrote; empty text is a new query.

    :raises CheckpointCorrupt: the text has another form.
    """
    if not text:
        return EngineState()
    try:
        body = json.loads(text)
        plan, metadata, base = body["plan"], body["metadata"], body.get("base", 0)
        optional = [body.get(name) for name in ("watermark", "formerWatermark", "stateAttempt", "retainedState")]
        known = type(plan) is int and type(base) is int and all(type(value) in {int, type(None)} for value in optional)
        if not known or base < 0 or not isinstance(json.loads(metadata), dict) or "\n" in metadata:
            raise ValueError(text)
        state = EngineState(plan, metadata, base, *optional)
        least = min(state.batch_watermark, state.next_watermark, state.previous_watermark or 0, state.state_partitions)
        if least < 0 or any(number is not None and number < 1 for number in (state.attempt, state.retained)):
            raise ValueError(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"the engine text of the checkpoint document cannot be read: {error!r}"
        raise CheckpointCorrupt(msg) from error
    return state


class QueryFolder(Protocol):
    """Where an attempt's query has its log and its state; used by the engine.

    :class:`sparkapp.spark.state.query_folder.LocalQueryFolder` is on a disk or a volume.
    """

    @property
    def uri(self) -> str:
        """For Spark."""
        ...

    def rebuild(self, *, job_uid: str, checkpoint_id: int, engine: EngineState, sources: int) -> None:
        """Makes the query resume with the batch after ``checkpoint_id``; see :func:`rebuild`."""
        ...

    def metadata(self, batch_id: int) -> str:
        """Spark's line about a batch; Spark writes it before the batch begins."""
        ...

    def settle(self, version: int, partitions: int) -> None:
        """Called between a batch and its document: the version of query state is whole, and stays.

        :param partitions: of each operator's state.
        :raises KafkaSparkJobError: it is not: no document may name it.
        """
        ...


@dataclass(frozen=True, slots=True)
class QueryLog:
    """The log of an attempt's query.

    :param folder: rebuilt when the query starts; it outlives the pods if the transform keeps state.
    :param outlives_driver: whether the transform may keep state in the folder.
    :param restored: the engine's part of the restored checkpoint.
    """

    folder: QueryFolder
    outlives_driver: bool
    restored: EngineState


def restored_engine(document: CheckpointDocument) -> EngineState:
    """With which the query of this attempt begins; without query state it is a new query.

    :raises CheckpointCorrupt: the document's numbers contradict each other.
    """
    state = decode_engine(document.engine)
    if not document.engine_has_state:
        return EngineState(plan=state.plan, base=document.checkpoint_id)
    if state.base >= document.checkpoint_id:
        msg = f"the query keeps state since checkpoint {state.base}: the document has {document.checkpoint_id}"
        raise CheckpointCorrupt(msg)
    return state


def watermark_millis(engine: str) -> int | None:
    """The event-time watermark of the document's last batch, in ms since 1970; None if there is none."""
    return decode_engine(engine).batch_watermark or None


def rewound(engine: str) -> str:
    """The engine's text for a restored checkpoint: without the watermark, which comes from later records."""
    return encode_engine(replace(_with_watermark(decode_engine(engine), 0), watermark=None, previous_watermark=None))


def gone_back(engine: str, target: str, *, checkpoint_id: int, number: int) -> str:
    """The engine's text for a checkpoint with the retained state of an earlier checkpoint.

    The new checkpoint has the version of state and the watermarks of the earlier. So batches count from later.

    :param engine: of the current checkpoint. :param target: of the earlier, as it was retained.
    :param checkpoint_id: of the earlier. :param number: of the new checkpoint.
    :raises CheckpointCorrupt: the text of the earlier has another form, or names no state of it.
    """
    earlier = decode_engine(target)
    if not earlier.base < checkpoint_id < number:
        msg = f"checkpoint {checkpoint_id} has no state: the query keeps it since checkpoint {earlier.base}"
        raise CheckpointCorrupt(msg)
    base = earlier.base + number - checkpoint_id
    return encode_engine(replace(earlier, plan=decode_engine(engine).plan, base=base))


def restored(engine: str, target: str, *, checkpoint_id: int, number: int) -> str:
    """The same for a restore, which a person asked for.

    :raises CheckpointUnusable: the text of the earlier has another form, or names no state of it.
    """
    try:
        return gone_back(engine, target, checkpoint_id=checkpoint_id, number=number)
    except CheckpointCorrupt as error:
        msg = f"the retained checkpoint {checkpoint_id} cannot be used: {error.message}"
        raise CheckpointUnusable(msg) from error


def adopted(engine: str, target: str, *, checkpoint_id: int, number: int, attempt: int) -> str:
    """The engine's text for a checkpoint with the state of another job, which is in the folder of this attempt.

    :param engine: of the current checkpoint. :param target: of the other job's checkpoint ``checkpoint_id``.
    :param number: of the new checkpoint, after the other: a version of state is never later than its checkpoint.
    :raises CheckpointUnusable: the text of the other has another form, or names no state that was retained.
    """
    try:
        if decode_engine(target).retained != checkpoint_id:
            msg = "it names no retained state"
            raise CheckpointCorrupt(msg)
        text = gone_back(engine, target, checkpoint_id=checkpoint_id, number=number)
    except CheckpointCorrupt as error:
        msg = f"the state of checkpoint {checkpoint_id} cannot be used: {error.message}"
        raise CheckpointUnusable(msg) from error
    return encode_engine(replace(decode_engine(text), attempt=attempt, retained=None))


def undone(document: CheckpointDocument) -> CheckpointDocument:
    """The document of a lost checkpoint, from which the query runs the lost batch again; called by recovery.

    The checkpoint's number stays: no number stands for two sets of offsets. Batches count from one checkpoint later
    instead. The batch begins again with the same version of query state and the same watermarks.

    :raises StateUncertain: an earlier release wrote the document, without the previous watermark.
    """
    if not document.engine_has_state:
        return document
    state = decode_engine(document.engine)
    if state.previous_watermark is None:
        msg = f"the query state is ahead of the records: checkpoint {document.checkpoint_id} was lost"
        raise StateUncertain(msg)
    before = replace(
        _with_watermark(state, state.previous_watermark),
        base=state.base + 1,
        watermark=state.batch_watermark,
        previous_watermark=None,
    )
    return replace(document, engine=encode_engine(before), engine_has_state=document.checkpoint_id > before.base)


def _with_watermark(state: EngineState, millis: int) -> EngineState:
    """The state with this watermark for the last batch, in ms since 1970."""
    metadata = {**json.loads(state.metadata), "batchWatermarkMs": millis}
    return replace(state, metadata=json.dumps(metadata, separators=(",", ":")))


def rebuild(folder: Path, *, job_uid: str, checkpoint_id: int, engine: EngineState, sources: int) -> None:
    """Makes the query resume with the batch after ``checkpoint_id``, whatever the folder had before.

    Query state (``state/``) is not changed, see :mod:`sparkapp.spark.state.state_store_files`.

    :param sources: how often the transform reads the source: Spark keeps an offset for each read.
    :raises VolumeFull: and VolumeUnusable: the log is incomplete; the next attempt rebuilds it.
    """
    with writing_to(folder):
        _rebuild(folder, job_uid, checkpoint_id, engine, sources)


def _rebuild(folder: Path, job_uid: str, checkpoint_id: int, engine: EngineState, sources: int) -> None:
    for log in LOGS:
        shutil.rmtree(folder / log, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in log_files(job_uid=job_uid, checkpoint_id=checkpoint_id, engine=engine, sources=sources).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def log_files(*, job_uid: str, checkpoint_id: int, engine: EngineState, sources: int) -> dict[str, str]:
    """The files of a log from which the query resumes, by their paths; see :func:`rebuild`."""
    found = {"metadata": json.dumps({"id": str(uuid.uuid5(_NAMESPACE, job_uid))})}
    last = checkpoint_id - engine.base - 1
    if last >= 1:
        found[f"offsets/{last - 1}"] = _offsets(max(engine.plan - 1, 0), engine.metadata, sources)
    if last >= 0:
        found[f"offsets/{last}"] = _offsets(engine.plan, engine.metadata, sources)
        found[f"commits/{last}"] = "v1\n" + json.dumps({"nextBatchWatermarkMs": engine.next_watermark})
    return found


def watermark_before(folder: QueryFolder, batch_id: int) -> int:
    """The watermark of the batch before ``batch_id``, in ms since 1970; 0 if there is none."""
    return EngineState(metadata=folder.metadata(batch_id - 1)).batch_watermark if batch_id > 0 else 0


def read_metadata(folder: Path, batch_id: int) -> str:
    """Spark's line about a batch; Spark writes it before the batch begins."""
    return metadata_in((folder / "offsets" / str(batch_id)).read_text(encoding="utf-8"))


def metadata_in(text: str) -> str:
    """The line in a file of the offset log."""
    lines = text.splitlines()
    return lines[1] if len(lines) > 1 else _DEFAULT_METADATA


def _offsets(plan: int, metadata: str, sources: int) -> str:
    return "\n".join(["v1", metadata, *[json.dumps({"plan": plan})] * sources])
