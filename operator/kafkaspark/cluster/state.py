"""``kafkaspark state JOB``: the current checkpoint with its offsets, and what the job can go back to.

``state read JOB`` and ``state diff JOB`` show the rows of operators' state.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kafkaspark.cluster.state_rows import DIFF, READ, add_row_options, answer
from kafkaspark.cluster.user_cluster import UserCluster, resources_path
from sparkapp.cli.job_checkpoints import FoundJob, checkpoints_of
from sparkapp.cli.table import Output, render
from sparkapp.cli.target import add_cluster_options, find_namespace
from sparkapp.model import names
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.errors import CommandRefused, KafkaSparkJobError

_EXAMPLES = """\
examples:
  kafkaspark state orders-upper
  kafkaspark state orders-upper --namespace shop --output json | jq .offsets
  kafkaspark state read orders-upper --in-cluster run
  kafkaspark state read orders-upper --operator 0 --key ann --in-cluster run
  kafkaspark state diff orders-upper --operator 0 --checkpoint 41 --folder /mnt/state/UID --output json
"""


def add_commands(commands: Any) -> None:
    """Registers ``state``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = (
        "show a job's checkpoint with its offsets, and the checkpoints and snapshots that it can go back to; or the"
        " rows of operators' state"
    )
    command = commands.add_parser(
        "state", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("verb", metavar="JOB", help="name of the KafkaSparkJob; or the word read or diff")
    command.add_argument("job", nargs="?", default="", metavar="JOB", help="behind read or diff: the job")
    add_cluster_options(command)
    command.add_argument("--output", "-o", type=Output, choices=list(Output), default=Output.TABLE)
    add_row_options(command)
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    reads = options.verb in {READ, DIFF} and bool(options.job or options.state)
    if options.job and not reads:
        msg = f"{options.verb} is neither read nor diff, and {options.job} follows it"
        raise CommandRefused(msg, remedy="kafkaspark state --help")
    if not reads:
        options.job = options.verb
    if options.found is None and options.state is None:
        find_namespace(options)
    if reads:
        return answer(options)
    place = {"namespace": options.namespace, "job": options.job, "context": options.context}
    found = checkpoints_of(state=options.state, **place).find()
    snapshots = []
    if options.state is None:
        snapshots = _snapshots(UserCluster.of_context(options.context), options.namespace, options.job)
    state = state_of(found, snapshots)
    print(json.dumps(state, indent=2) if options.output is Output.JSON else _as_text(state, options))
    return 0


def state_of(found: FoundJob, snapshots: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The current checkpoint, and what the job can go back to. A state that cannot be read has its problem.

    :param snapshots: the KafkaSparkSnapshots of the job, as the API has them.
    """
    current: CheckpointDocument | None = None
    try:
        current = found.current()
        checkpoint: dict[str, Any] = _checkpoint(current)
    except KafkaSparkJobError as error:
        checkpoint = {"problem": f"{error.reason}: {error.message}"}
    return {
        "checkpoint": checkpoint,
        "offsets": [
            {"topic": partition.topic, "partition": partition.partition, "offset": offset}
            for partition, offset in sorted((current.offsets if current else {}).items())
        ],
        "retained": [_retained(each) for each in found.earlier()],
        "snapshots": [_snapshot(each) for each in snapshots],
    }


def _checkpoint(document: CheckpointDocument) -> dict[str, Any]:
    return {
        "id": document.checkpoint_id,
        "time": document.created_at,
        "attempt": document.attempt,
        "parallelism": document.parallelism,
        "recordsIn": document.counters.records_in,
        "recordsOut": document.counters.records_out,
        "transactionalIdPrefix": document.prefix,
        "transactionsToCommit": [each.transactional_id for each in document.committables],
        "end": "finished" if document.finished else "orderly stop" if document.drained else "none",
    }


def _retained(checkpoint: RetainedCheckpoint | KafkaSparkJobError) -> dict[str, Any]:
    if not isinstance(checkpoint, RetainedCheckpoint):
        return {"checkpoint": None, "time": None, "note": checkpoint.message}
    note = "orderly stop" if checkpoint.orderly else ""
    return {"checkpoint": checkpoint.checkpoint_id, "time": checkpoint.created_at, "note": note}


def _snapshot(body: Mapping[str, Any]) -> dict[str, Any]:
    status = body.get("status") or {}
    checkpoint = status.get("checkpoint") or {}
    return {
        "snapshot": body["metadata"]["name"], "state": status.get("state", "Pending"),
        "checkpoint": checkpoint.get("id"), "time": checkpoint.get("time"),
    }  # fmt: skip


def _snapshots(cluster: UserCluster, namespace: str, job: str) -> list[dict[str, Any]]:
    items = cluster.items(resources_path(namespace, names.SNAPSHOT_PLURAL))
    return [each for each in items if each["spec"]["jobRef"]["name"] == job]


def _as_text(state: Mapping[str, Any], options: argparse.Namespace) -> str:
    rows = [{"field": name, "value": _cell(value)} for name, value in state["checkpoint"].items()]
    parts = [render(rows, Output.TABLE)]
    for name in ("offsets", "retained", "snapshots"):
        if state[name]:
            parts.append(render(state[name], Output.TABLE))
    if options.state is not None:
        # Snapshots and restores are of a cluster.
        return "\n\n".join(parts)
    where = f"{options.job} --namespace {options.namespace}"
    usable = next((row["checkpoint"] for row in state["retained"] if row["checkpoint"] is not None), None)
    again = [] if usable is None else [f"$ kafkaspark restore {where} --checkpoint {usable}"]
    return "\n\n".join([*parts, "\n".join([f"$ kafkaspark snapshot {where}", *again])])


def _cell(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)
