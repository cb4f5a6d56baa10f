"""``kafkaspark state read JOB`` and ``state diff JOB``: the rows of operators' state at a checkpoint."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kafkaspark.cluster.in_cluster import image_of, run
from kafkaspark.cluster.pod_command import FILES, PodCommand
from kafkaspark.cluster.user_cluster import UserCluster
from sparkapp.checkpoint.recovery.restore import find_retained
from sparkapp.cli.job_checkpoints import ClusterCheckpoints, FileCheckpoints, FoundJob
from sparkapp.cli.table import Output, render
from sparkapp.model import names
from sparkapp.model.errors import CommandRefused

if TYPE_CHECKING:
    from sparkapp.spark.state.state_reader import StateAt

READ, DIFF = "read", "diff"
MAX_ROWS = 10_000
_ROWS = 100
_FOUND = "checkpoints.json"


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
    if options.folder is None:
        claim = _claim_of(found)
        if not claim:
            raise CommandRefused(_no_volume(found), remedy="name another job, or --folder with the folder of its state")
        msg = f"the state is on the volume of claim {claim}, which this machine does not have"
        raise CommandRefused(msg, remedy="add --in-cluster run, or --folder MOUNT/UID where the volume is mounted")
    rows, more = _rows(options, found)
    print(render(rows if options.output is Output.JSON else [_flat(row) for row in rows], options.output))
    if more:
        sys.stderr.write(f"there are more rows: add --key or --partition, or raise --limit ({options.limit})\n")
    return 0


def _found(options: argparse.Namespace) -> FoundJob:
    if options.found is not None:
        return FoundJob(**json.loads(options.found.read_text(encoding="utf-8")))
    if options.state is not None:
        return FileCheckpoints(options.state).find()
    return ClusterCheckpoints(namespace=options.namespace, job=options.job, context=options.context).find()


def _rows(options: argparse.Namespace, found: FoundJob) -> tuple[Sequence[Mapping[str, Any]], bool]:
    from kafkaspark.local.spark import small_session
    from sparkapp.spark.state.state_reader import Selection, StateReader

    at = _at(found, options.folder, options.checkpoint)
    after = _at(found, options.folder, options.to) if options.verb == DIFF else at
    with tempfile.TemporaryDirectory(prefix="kafkaspark-state-") as scratch:
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


def _no_volume(found: FoundJob) -> str:
    if ((found.spec.get("checkpoint") or {}).get("state") or {}).get("storage"):
        return "the state is in an object store (spec.checkpoint.state.storage), which this command does not read yet"
    return "the job has no volume for state (spec.checkpoint.stateVolume)"


def _in_cluster(options: argparse.Namespace, found: FoundJob) -> int:
    cluster = UserCluster.of_context(options.context)
    body = cluster.job(options.namespace, options.job)
    claim = _claim_of(found)
    if not claim:
        raise CommandRefused(_no_volume(found), remedy="name another job")
    if found.lost is not None:
        raise found.lost
    image = options.image or image_of(body, cluster.pods(options.namespace, options.job))
    if not image:
        raise CommandRefused("the image of the pod is not known", remedy="add --image, with the image of your jobs")
    parts = {"uid": found.uid, "text": found.text, "texts": found.texts}
    pod = PodCommand(
        name=f"kafkaspark-state-{options.verb}-{secrets.token_hex(3)}", namespace=options.namespace, image=image,
        arguments=_arguments(options, found.uid), files={_FOUND: json.dumps(parts)}, claim=claim,
        pull_secrets=tuple(str(each["name"]) for each in body["spec"].get("imagePullSecrets") or ()),
    )  # fmt: skip
    if options.in_cluster == "run":
        return run(cluster, pod)
    print(yaml.safe_dump_all(pod.manifests(), sort_keys=False), end="")
    return 0


def _arguments(options: argparse.Namespace, uid: str) -> list[str]:
    given = {
        "--checkpoint": options.checkpoint, "--to": options.to, "--operator": options.operator,
        "--store": options.store or None, "--partition": options.partition, "--key": options.key or None,
        "--limit": options.limit, "--output": options.output.value, "--folder": f"{names.STATE_DIRECTORY}/{uid}",
        "--found": f"{FILES}/{_FOUND}",
    }  # fmt: skip
    flags = [f"{name}={value}" for name, value in given.items() if value is not None]
    return ["state", options.verb, options.job, *flags]
