"""A job's state ConfigMap as both sides read it: the operator before it starts an attempt, the driver in it."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model import names
from sparkapp.model.errors import CheckpointCorrupt

_SHOWN = 5


def document_text(
    config_map: str, data: Mapping[str, object] | None, binary_data: Mapping[str, object] | None
) -> str | None:
    """The checkpoint document's text; None where the ConfigMap is as empty as the operator makes it.

    A ConfigMap that holds something else is not empty: a document under another key, or as binary data, which is what
    ``kubectl create configmap --from-file`` makes of a compressed one, must not pass for a first start.

    :param config_map: its name, for messages.
    :raises CheckpointCorrupt: there is something in it, and no text under the document's key.
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


def way_back(namespace: str, job: str) -> str:
    """What a person can do for a job whose state is gone.

    The group's offsets moved with the transactions, so a new job that starts from them repeats nothing and loses
    nothing; but only a person knows whether the transform shuffles, and whether somebody has moved the group.
    """
    return (
        f"put ConfigMap {names.state_config_map(job)} back from a backup. Without one, delete the job and create it"
        " again with source.startup.mode GROUP_OFFSETS: it goes on from its group's offsets, exactly once unless the"
        " transform shuffles. Or with SPECIFIC_OFFSETS and those of an earlier checkpoint, after which everything is"
        f" written once more: while ConfigMap {names.checkpoints_config_map(job)} is still there,"
        f" `python -m sparkapp checkpoint list --namespace {namespace} --job {job}` lists them and `checkpoint show ID`"
        " with the same arguments has the offsets"
    )
