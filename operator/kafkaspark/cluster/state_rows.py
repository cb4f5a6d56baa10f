"""``kafkaspark state read JOB`` and ``state diff JOB``: the rows of operators' state at a checkpoint."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kafkaspark.cluster.in_cluster import image_of, run
from kafkaspark.cluster.pod_command import FILES, PodCommand
from kafkaspark.cluster.user_cluster import UserCluster
from sparkapp.checkpoint.recovery.restore import find_retained
from sparkapp.cli.client_file import read_text
from sparkapp.cli.job_checkpoints import FoundJob, checkpoints_of
from sparkapp.cli.table import Output, render
from sparkapp.model import names
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.errors import CommandRefused, StateStoreUnusable
from sparkapp.model.job.sections.state_storage import S3Storage

if TYPE_CHECKING:
    from sparkapp.spark.state.state_reader import StateAt

READ, DIFF = "read", "diff"
MAX_ROWS = 10_000
_ROWS = 100
_FOUND = "checkpoints.json"
_NO_PLACE = "the job has no place for state (spec.checkpoint.stateVolume or spec.checkpoint.state.storage)"
_REMEDY_STORE = (
    "add --in-cluster run, which reads it where the pods of the job do, with their access key. Or set AWS_ACCESS_KEY_ID"
    " and AWS_SECRET_ACCESS_KEY where this machine reaches the store"
)


def add_row_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of :func:`answer` to ``state``."""
    rows = command.add_argument_group("rows", "state read and state diff: the rows of operators' state")
    rows.add_argument("--checkpoint", type=int, metavar="ID", help="a retained checkpoint; by default the current")
    rows.add_argument("--to", type=int, metavar="ID", help="of diff: the later checkpoint; by default the current")
    rows.add_argument("--operator", type=int, metavar="N", help="number of the operator; by default stores are listed")
    rows.add_argument(
        "--store", default="", metavar="NAME", help="left or right of a join, a state variable, or timers"
    )
    rows.add_argument("--partition", type=int, metavar="N", help="of the state")
    rows.add_argument("--key", default="", metavar="TEXT", help="text of a field of the key, or the key as JSON")
    rows.add_argument(
        "--limit", type=int, default=_ROWS, metavar="N", help=f"rows, by default {_ROWS}, at most {MAX_ROWS}"
    )
    rows.add_argument(
        "--folder", type=Path, metavar="DIR", help="the job's folder on a mount of its volume: MOUNT/UID of the job"
    )
    rows.add_argument("--state", type=Path, metavar="FILE", help="checkpoint file of a job without Kubernetes")
    rows.add_argument(
        "--in-cluster", choices=("print", "run"), help="print the manifest of a Job that reads the volume, or run it"
    )
    rows.add_argument("--image", default="", help="of its pod; by default that of the job")
    rows.add_argument("--found", type=Path, help=argparse.SUPPRESS)  # in that pod: the checkpoints as a file


def answer(options: argparse.Namespace) -> int:
    """Runs ``state read`` or ``state diff``; called by ``state``.

    :param options: ``verb`` is which. :raises KafkaSparkJobError: nothing was read.
    """
    if not 0 < options.limit <= MAX_ROWS:
        msg = f"--limit {options.limit} is not between 1 and {MAX_ROWS}"
        raise CommandRefused(msg, remedy="add --key or --partition")
    if options.verb == DIFF and options.checkpoint is None:
        remedy = "add --checkpoint with the earlier checkpoint; `kafkaspark state JOB` lists them"
        raise CommandRefused("diff compares two checkpoints", remedy=remedy)
    found = _found(options)
    if options.in_cluster:
        return _in_cluster(options, found)
    if options.folder is None and _store_of(found) is None:
        claim = _claim_of(found)
        if not claim:
            raise CommandRefused(_NO_PLACE, remedy="name another job, or --folder with the folder of its state")
        msg = f"the state is on the volume of claim {claim}, which this machine does not have"
        raise CommandRefused(msg, remedy="add --in-cluster run, or --folder MOUNT/UID where the volume is mounted")
    rows, more = _rows(options, found)
    print(render(rows if options.output is Output.JSON else [_flat(row) for row in rows], options.output))
    if more:
        sys.stderr.write(f"there are more rows: add --key or --partition, or raise --limit ({options.limit})\n")
    return 0


def _found(options: argparse.Namespace) -> FoundJob:
    if options.found is not None:
        return FoundJob(**json.loads(read_text(options.found)))
    place = {"namespace": options.namespace, "job": options.job, "context": options.context}
    return checkpoints_of(state=options.state, **place).find()


def _rows(options: argparse.Namespace, found: FoundJob) -> tuple[Sequence[Mapping[str, Any]], bool]:
    from kafkaspark.local.spark import small_session
    from sparkapp.spark.state.state_reader import Selection, StateReader

    with tempfile.TemporaryDirectory(prefix="kafkaspark-state-") as scratch:
        folder = options.folder or Path(scratch) / "of-the-job"
        at = _at(found, folder, options.checkpoint)
        after = _at(found, folder, options.to) if options.verb == DIFF else at
        if options.folder is None:
            _download(found, {at.checkpoint_id: at, after.checkpoint_id: after}.values())
        with redirect_stdout(sys.stderr):
            session = small_session(Path(scratch))
        try:
            reader = StateReader(session, Path(scratch))
            stores = reader.stores(after)
            if options.operator is None:
                return [
                    {"operator": each.operator, "kind": each.kind, "store": each.name, "partitions": each.partitions}
                    for each in stores
                ], False
            known = sorted({each.name for each in stores if each.operator == options.operator})
            if options.store not in known:
                named = ", ".join(name or "none" for name in known) or "no store"
                msg = f"operator {options.operator} has no store {options.store or 'without a name'}: it has {named}"
                raise CommandRefused(msg, remedy="leave --operator out: the command then lists operators and stores")
            selection = Selection(options.operator, options.store, options.partition, options.key)
            if options.verb == DIFF:
                return reader.changes(at, after, selection, limit=options.limit)
            return reader.rows(at, selection, limit=options.limit)
        finally:
            session.stop()


def _at(found: FoundJob, folder: Path, checkpoint_id: int | None) -> StateAt:
    from sparkapp.spark.state.state_reader import StateAt

    document = None if checkpoint_id is not None and found.lost is not None else found.current()
    if document is not None and checkpoint_id in {None, document.checkpoint_id}:
        engine, number = document.engine if document.engine_has_state else "", document.checkpoint_id
    else:
        kept = find_retained(found.texts, checkpoint_id or 0, job_uid=found.uid)
        engine, number = kept.engine, kept.checkpoint_id
    if not engine:
        msg = f"checkpoint {number} has no state of operators"
        raise CommandRefused(msg, remedy="choose one with state: python3 -m sparkapp checkpoint list --job NAME")
    return StateAt(number, engine, folder)


def _flat(row: Mapping[str, Any]) -> dict[str, object]:
    """A row of a table: JSON where a cell has several fields."""
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        for name, value in row.items()
    }


def _claim_of(found: FoundJob) -> str:
    return str(((found.spec.get("checkpoint") or {}).get("stateVolume") or {}).get("claimName") or "")


def _store_of(found: FoundJob) -> S3Storage | None:
    """The bucket with the job's state; None where it is on a volume, or the job keeps none."""
    storage = (((found.spec.get("checkpoint") or {}).get("state") or {}).get("storage") or {}).get("s3")
    return None if storage is None else read_part(S3Storage, Fields(storage, "spec.checkpoint.state.storage.s3"))


def _download(found: FoundJob, checkpoints: Iterable[StateAt]) -> None:
    from sparkapp.spark.state.object_store.downloaded_state import download
    from sparkapp.spark.state.object_store.store import ObjectStore

    storage = _store_of(found)
    if storage is None:
        return
    try:
        for each in checkpoints:
            download(ObjectStore.of(storage, found.uid), each.checkpoint_id, each.engine, each.folder)
    except StateStoreUnusable as error:
        raise CommandRefused(error.message, remedy=_REMEDY_STORE) from error


def _in_cluster(options: argparse.Namespace, found: FoundJob) -> int:
    cluster = UserCluster.of_context(options.context)
    body = cluster.job(options.namespace, options.job)
    claim = _claim_of(found)
    store = _store_of(found)
    if not claim and store is None:
        raise CommandRefused(_NO_PLACE, remedy="name another job")
    if found.lost is not None:
        raise found.lost
    image = options.image or image_of(body, cluster.pods(options.namespace, options.job))
    if not image:
        raise CommandRefused("the image of the pod is not known", remedy="add --image, with the image of your jobs")
    parts: dict[str, Any] = {"uid": found.uid, "text": found.text, "texts": found.texts}
    if store is not None:
        parts["spec"] = {"checkpoint": {"state": found.spec["checkpoint"]["state"]}}
    pod = PodCommand(
        name=f"kafkaspark-state-{options.verb}-{secrets.token_hex(3)}", namespace=options.namespace, image=image,
        arguments=_arguments(options, found.uid if claim else ""), files={_FOUND: json.dumps(parts)}, claim=claim,
        store=store,
        pull_secrets=tuple(str(each["name"]) for each in body["spec"].get("imagePullSecrets") or ()),
    )  # fmt: skip
    if options.in_cluster == "run":
        return run(cluster, pod)
    print(yaml.safe_dump_all(pod.manifests(), sort_keys=False), end="")
    return 0


def _arguments(options: argparse.Namespace, uid: str) -> list[str]:
    """
    :param uid: of the job whose volume the pod mounts; empty for state in a bucket.
    """
    given = {
        "--checkpoint": options.checkpoint, "--to": options.to, "--operator": options.operator,
        "--store": options.store or None, "--partition": options.partition, "--key": options.key or None,
        "--limit": options.limit, "--output": options.output.value,
        "--folder": f"{names.STATE_DIRECTORY}/{uid}" if uid else None,
        "--found": f"{FILES}/{_FOUND}",
    }  # fmt: skip
    flags = [f"{name}={value}" for name, value in given.items() if value is not None]
    return ["state", options.verb, options.job, *flags]
