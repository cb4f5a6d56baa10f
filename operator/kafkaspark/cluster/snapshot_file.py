"""A snapshot as a file: a KafkaSparkSnapshot that another namespace or cluster takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from kafkaspark.cluster.user_cluster import UserCluster, resources_path
from kafkasparkjob_operator.identity import API_VERSION
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import MAX_RETAINED_BYTES, decode_snapshot
from sparkapp.model.errors import CheckpointUnusable, CommandRefused, InputUnreadable

MAX_FILE_BYTES = 4 * MAX_RETAINED_BYTES
"""Of a file: YAML and JSON may write a character of the checkpoint with several."""
_AGAIN = "export the snapshot again: kafkaspark snapshot export NAME -o FILE"


def exported(cluster: UserCluster, namespace: str, name: str) -> dict[str, Any]:
    """The manifest of a snapshot that is Ready, for another namespace or cluster.

    :raises CommandRefused: it does not exist, is not Ready, or its ConfigMap is gone or damaged.
    """
    snapshot = cluster.get(f"{resources_path(namespace, names.SNAPSHOT_PLURAL)}/{quote(name, safe='')}")
    status = snapshot.get("status") or {}
    kept = status.get("configMap") or {}
    if status.get("state") != "Ready":
        msg = f"snapshot {namespace}/{name} is not Ready: {status.get('message') or 'the operator has not filled it'}"
        raise CommandRefused(msg, remedy=f"kubectl get kss -n {namespace}")
    place = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(str(kept.get('name')), safe='')}"
    config_map = cluster.get(place)
    if config_map["metadata"]["uid"] != kept.get("uid"):
        msg = f"ConfigMap {kept.get('name')} of snapshot {namespace}/{name} was deleted and created again"
        raise CommandRefused(msg, remedy=f"export another snapshot: kubectl get kss -n {namespace}")
    text = str((config_map.get("data") or {}).get(names.SNAPSHOT_KEY, ""))
    _checked(text, f"snapshot {namespace}/{name}", job_uid=str(status.get("jobUID", "")))
    return _manifest(name, str(snapshot["spec"]["jobRef"]["name"]), text)


def read_manifest(path: Path, *, name: str) -> dict[str, Any]:
    """The manifest of a file, which is untrusted: all but the names and the checkpoint is left out.

    :param name: of the snapshot; empty for that of the file.
    :raises InputUnreadable: the file is no exported snapshot.
    :raises CommandRefused: its checkpoint cannot be used.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise InputUnreadable(f"{path} has more than {MAX_FILE_BYTES} bytes", remedy=_AGAIN)
        body = yaml.safe_load(text)
        kind, found = body["kind"], body["metadata"]["name"]
        job, checkpoint = body["spec"]["jobRef"]["name"], body["spec"]["checkpoint"]
    except OSError as error:
        raise InputUnreadable(f"cannot read {path}: {error.strerror}", remedy="name another file") from error
    except (yaml.YAMLError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputUnreadable(f"{path} is no exported snapshot: {type(error).__name__}", remedy=_AGAIN) from error
    texts = (found, job, checkpoint)
    if kind != names.SNAPSHOT_KIND or not all(isinstance(each, str) for each in texts):
        raise InputUnreadable(f"{path} is no exported snapshot: it has another kind", remedy=_AGAIN)
    _checked(checkpoint, str(path))
    return _manifest(name or found, job, checkpoint)


def state_note(manifest: dict[str, Any]) -> str:
    """What a person has to copy in addition to the file; empty for the snapshot of a job without state.

    :param manifest: of :func:`exported`.
    """
    checkpoint = decode_snapshot(manifest["spec"]["checkpoint"])
    if not checkpoint.engine:
        return ""
    folder = f"{checkpoint.job_uid}/{names.retained_state(checkpoint.checkpoint_id)}"
    return (
        f"the job keeps state, which is not in the file. Copy folder {folder} of its volume"
        " (spec.checkpoint.stateVolume) to the same place of the new job's volume, while this snapshot exists."
        f" Of a bucket (spec.checkpoint.state.storage) copy all of {checkpoint.job_uid}/{names.RETAINED_STATE}\n"
    )


def as_text(manifest: dict[str, Any]) -> str:
    """As ``kubectl apply --filename`` takes it."""
    return yaml.safe_dump(manifest, sort_keys=False, width=10**9)


def _checked(text: str, what: str, *, job_uid: str = "") -> RetainedCheckpoint:
    try:
        return decode_snapshot(text, job_uid=job_uid)
    except CheckpointUnusable as error:
        raise CommandRefused(f"{what}: {error.message}", remedy=_AGAIN) from error


def _manifest(name: str, job: str, checkpoint: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION, "kind": names.SNAPSHOT_KIND, "metadata": {"name": name},
        "spec": {"jobRef": {"name": job}, "checkpoint": checkpoint},
    }  # fmt: skip
