"""The state ConfigMap of a job, read by the operator before it starts an attempt, and by the driver."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model import names
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign

_SHOWN = 5


def document_text(
    config_map: str, data: Mapping[str, object] | None, binary_data: Mapping[str, object] | None
) -> str | None:
    """The checkpoint document's text; None where the ConfigMap is empty, as the operator creates it.

    A document under another key or as binary data must not pass for a first start. ``kubectl create configmap
    --from-file`` stores a compressed document as binary data.

    :param config_map: its name, for messages.
    :raises CheckpointCorrupt: it is not empty, and has no text under the document's key.
    """
    text = (data or {}).get(names.CHECKPOINT_KEY)
    if isinstance(text, str):
        return text
    held = sorted({*(data or {}), *(binary_data or {})})
    if not held:
        return None
    if names.CHECKPOINT_KEY in held:
        msg = f"ConfigMap {config_map} holds {names.CHECKPOINT_KEY} as binary data, not as text"
    else:
        msg = f"ConfigMap {config_map} has no key {names.CHECKPOINT_KEY}, but {', '.join(held[:_SHOWN])}"
    raise CheckpointCorrupt(msg, remedy=f"put the document as JSON text under {names.CHECKPOINT_KEY} in data")


def check_made_for(config_map: str, made_for: str, data: Mapping[str, object] | None, *, job_uid: str) -> None:
    """Called with the ConfigMap's annotation ``job-uid``. A document names its job; without a document this has to.

    :param config_map: its name, for messages.
    :param made_for: the annotation; empty where there is none.
    :raises CheckpointForeign: it was made for another resource, or proves no resource at all.
    """
    if made_for == job_uid or (not made_for and names.CHECKPOINT_KEY in (data or {})):
        return
    whose = (
        f"another job: UID {made_for!r} instead of {job_uid!r}"
        if made_for
        else "no job: it has no annotation of this job"
    )
    msg = f"ConfigMap {config_map} belongs to {whose}"
    raise CheckpointForeign(msg)


def way_back(namespace: str, job: str) -> str:
    """The remedy for a job whose state is lost.

    The group's offsets moved with the transactions, so a new job that starts from them neither repeats nor loses
    records. But only a person knows whether the transform shuffles, and whether somebody has moved the group.
    """
    return (
        f"restore ConfigMap {names.state_config_map(job)} from a backup. Without a backup, delete the job and create it"
        " again with source.startup.mode GroupOffsets: it resumes from its group's offsets, exactly once unless the"
        " transform shuffles. Or use SpecificOffsets with the offsets of an earlier checkpoint: all later records are"
        f" then written again. While ConfigMap {names.checkpoints_config_map(job)} exists,"
        f" `python3 -m sparkapp checkpoint list --namespace {namespace} --job {job}` lists them and"
        " `checkpoint show ID` with the same arguments has the offsets"
    )
