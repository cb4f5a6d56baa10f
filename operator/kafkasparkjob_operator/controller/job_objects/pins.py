"""Which state of a job snapshots need: the only derivation of pins (ADR 115).

A pin is an annotation of the ConfigMap of a job's retained checkpoints. The driver removes the state of a checkpoint
that is neither retained nor pinned.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasparkjob_operator.identity import ROLE_SNAPSHOT, JobIdentity
from kafkasparkjob_operator.kubernetes.port import Body, Cluster, ObjectRefused
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState
from sparkapp.model import commands, names
from sparkapp.model.checkpoint.retained import Pin
from sparkapp.model.checkpoint.retained_codec import decode_snapshot
from sparkapp.model.errors import CheckpointUnusable


async def needed_pins(cluster: Cluster, job: JobIdentity, pins: Mapping[str, Pin]) -> dict[str, Pin]:
    """The pins that the job's ConfigMap of retained checkpoints has to have, by the UIDs of their snapshots.

    The API server is asked for each snapshot, because what a watch has not brought yet would lose its state. A snapshot
    has its own ConfigMap before it is Ready, so the list of these lacks none that is Ready.

    Called for a ConfigMap that is to be created, and by the comparison of pins with snapshots.

    :param pins: those that the ConfigMap has. The pin of a snapshot that has no checkpoint yet stays.
    :raises ClusterError: it is not known which pins are needed. :raises ObjectRefused: and what to do about it.
    """
    named = {uid: pin.snapshot for uid, pin in pins.items()}
    for config_map in await cluster.list_snapshots(job.key):
        meta = config_map["metadata"]
        if (meta.get("annotations") or {}).get(names.ANNOTATION_JOB_UID) == job.uid:
            owners = meta.get("ownerReferences") or ()
            named |= {owner["uid"]: owner["name"] for owner in owners if owner.get("kind") == names.SNAPSHOT_KIND}
    needed = {}
    for uid, name in named.items():
        snapshot = await cluster.get(names.SNAPSHOT_KIND, job.namespace, name)
        if snapshot is None or not _may_need(snapshot, uid):
            continue
        pin = pins.get(uid) or await _pin_of(cluster, job, snapshot)
        if pin is not None:
            needed[uid] = pin
    return needed


def is_made_for(config_map: Body, snapshot: Body) -> bool:
    """Whether the operator has created the ConfigMap, and for this snapshot."""
    meta = config_map["metadata"]
    owned = any(owner.get("uid") == snapshot["metadata"]["uid"] for owner in meta.get("ownerReferences") or ())
    role = (meta.get("labels") or {}).get(names.LABEL_ROLE)
    return owned and role == ROLE_SNAPSHOT and config_map.get("immutable") is True


def _may_need(snapshot: Body, uid: str) -> bool:
    """Whether it is the snapshot of that UID, and has a checkpoint or may get it.

    An imported snapshot needs no pin: a person has copied its state, so no driver removes it.
    """
    state = (snapshot.get("status") or {}).get("state")
    is_imported = bool(snapshot["spec"].get("checkpoint"))
    return snapshot["metadata"]["uid"] == uid and state != SnapshotState.FAILED and not is_imported


async def _pin_of(cluster: Cluster, job: JobIdentity, snapshot: Body) -> Pin | None:
    """The pin that a snapshot has lost; None where it holds no state of the job.

    :raises ObjectRefused: its checkpoint cannot be read.
    """
    name, uid = snapshot["metadata"]["name"], snapshot["metadata"]["uid"]
    config_map = await cluster.get("ConfigMap", job.namespace, names.snapshot_config_map(name, uid))
    if config_map is None or not is_made_for(config_map, snapshot):
        return None
    try:
        checkpoint = decode_snapshot(str((config_map.get("data") or {}).get(names.SNAPSHOT_KEY, "")), job_uid=job.uid)
    except CheckpointUnusable as error:
        command = commands.delete(names.SNAPSHOT_KIND, name, job.namespace)
        msg = f"it is not known which state snapshot {name} needs: {error.message}; delete it: {command}"
        raise ObjectRefused(msg) from error
    return Pin(checkpoint.checkpoint_id, name) if checkpoint.engine else None
