"""``python3 -m sparkapp checkpoint list | show | verify | restore``: a job's checkpoints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkapp.checkpoint.recovery.restore import Rewind, find_retained, refuse_without_state, rewind_between
from sparkapp.cli.client_file import add_allow_insecure
from sparkapp.cli.job_checkpoints import FoundJob, JobCheckpoints, checkpoints_of
from sparkapp.cli.log_ranges import client_properties, log_problems
from sparkapp.cli.table import Output, render
from sparkapp.cli.target import add_cluster_options, find_namespace
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, as_retained
from sparkapp.model.errors import CommandRefused, ConfigurationError, KafkaSparkJobError, RestoreRefused
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.partition import TopicPartition

Row = dict[str, object]


def add_commands(commands: Any) -> None:
    """Registers ``checkpoint`` and its subcommands; called by ``sparkapp.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned. ``answer`` of the parsed options runs
        the command and returns the exit status.
    """
    parser = commands.add_parser("checkpoint", help="list, show, verify and restore a job's checkpoints")
    kinds = parser.add_subparsers(dest="checkpoint_command", required=True)
    for name, what, answer in (
        ("list", "list the current checkpoint and the retained checkpoints", _list),
        (
            "show",
            "show the next offset of each partition after a checkpoint, by default the current",
            _show,
        ),
        ("verify", "decode every checkpoint and, with --bootstrap, check that its next records exist", _verify),
        ("restore", "show what a restore of a checkpoint reads and writes again; with --yes, restore it", _restore),
    ):
        command = kinds.add_parser(name, help=what, description=what)
        add_cluster_options(command)
        command.add_argument("--job", help="name of the KafkaSparkJob; needs a kubeconfig or a pod's rights")
        command.add_argument("--state", type=Path, help="state file of a job without Kubernetes")
        command.add_argument("--output", "-o", type=Output, choices=list(Output), default=Output.TABLE)
        if name in ("show", "restore"):
            command.add_argument("id", type=int, nargs="?", metavar="ID", help="number of the checkpoint")
        if name == "restore":
            command.add_argument("--snapshot", default="", metavar="NAME", help="a KafkaSparkSnapshot, in place of ID")
            add_restore_options(command)
        if name == "verify":
            _add_brokers(command)
        command.set_defaults(answer=_answering(answer))


def add_restore_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of :func:`restore` but those that name job and target."""
    _add_brokers(command)
    command.add_argument("--yes", action="store_true", help="restore; without it nothing changes")


def restore(options: argparse.Namespace) -> int:
    """Runs ``checkpoint restore``; called by ``kafkaspark restore``, too.

    :param options: with ``job``, ``state``, and ``id`` or ``snapshot``.
    """
    return _answering(_restore)(options)


def _add_brokers(command: argparse.ArgumentParser) -> None:
    command.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka brokers to compare the offsets with")
    command.add_argument(
        "--command-config", type=Path, metavar="FILE", help="client properties of the brokers, name=value lines"
    )
    add_allow_insecure(command)


def _answering(answer: Callable[[argparse.Namespace, JobCheckpoints], int]) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        find_namespace(options)
        place = checkpoints_of(
            state=options.state, namespace=options.namespace, job=options.job, context=options.context
        )  # fmt: skip
        return answer(options, place)

    return run


def _list(options: argparse.Namespace, checkpoints: JobCheckpoints) -> int:
    found = checkpoints.find()
    rows: list[Row] = []
    every: list[tuple[RetainedCheckpoint | KafkaSparkJobError, str]] = [
        (checkpoint, "retained") for checkpoint in found.earlier()
    ]
    if found.text is not None or found.lost is not None:
        every.insert(0, (_current(found), "current"))
    for checkpoint, kind in every:
        if isinstance(checkpoint, RetainedCheckpoint):
            rows.append(_list_row(checkpoint, kind))
        else:
            rows.append(
                dict.fromkeys(_list_row(_NOTHING, "")) | {"kind": f"{kind}, unusable", "note": checkpoint.message}
            )
    _print(rows, options.output, empty="no checkpoint yet")
    return 0


def _current(found: FoundJob) -> RetainedCheckpoint | KafkaSparkJobError:
    try:
        return as_retained(found.current())
    except KafkaSparkJobError as error:
        return error


_NOTHING = RetainedCheckpoint(job_uid="", attempt=1, checkpoint_id=1, created_at="")


def _list_row(checkpoint: RetainedCheckpoint, kind: str) -> Row:
    return {
        "checkpoint": checkpoint.checkpoint_id,
        "time": checkpoint.created_at,
        "kind": kind,
        "attempt": checkpoint.attempt,
        "partitions": len(checkpoint.offsets),
        "recordsIn": checkpoint.records_in,
        "recordsOut": checkpoint.records_out,
        "state": "yes" if checkpoint.engine else "",
        "note": "orderly stop" if checkpoint.orderly else "",
    }


def _show(options: argparse.Namespace, checkpoints: JobCheckpoints) -> int:
    found = checkpoints.find()
    current = _current(found)
    now: Mapping[TopicPartition, int] = {}
    if isinstance(current, RetainedCheckpoint):
        checkpoint = current if options.id in (None, current.checkpoint_id) else _earlier(found, options.id)
        now = current.offsets
    elif options.id is None:
        raise current
    else:
        # With these offsets a user recreates a job whose state is lost.
        checkpoint = _earlier(found, options.id)
    bounded = {"stop": checkpoint.stops.get} if checkpoint.stopping else {}
    rows: list[Row] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": offset,
            **{name: stop(partition) for name, stop in bounded.items()},
            "behindCurrent": now[partition] - offset if partition in now else None,
        }
        for partition, offset in sorted(checkpoint.offsets.items())
    ]
    _print(rows, options.output, empty=f"checkpoint {checkpoint.checkpoint_id} has no partition")
    return 0


def _verify(options: argparse.Namespace, checkpoints: JobCheckpoints) -> int:
    found = checkpoints.find()
    look = _look_at_logs(options)
    rows = [
        _verdict("current", _current(found), look),
        *(_verdict("retained", retained, look) for retained in found.earlier()),
    ]
    _print(rows, options.output)
    wrong = sum(row["verdict"] != "valid" for row in rows)
    if wrong:
        sys.stderr.write(f"{wrong} of {len(rows)} checkpoint(s) cannot be resumed from or restored\n")
    return 1 if wrong else 0


Look = Callable[[Mapping[TopicPartition, int]], Sequence[str]]


def _verdict(kind: str, checkpoint: RetainedCheckpoint | KafkaSparkJobError, look: Look) -> Row:
    if isinstance(checkpoint, KafkaSparkJobError):
        return {"checkpoint": None, "kind": kind, "verdict": "unreadable", "problem": checkpoint.message}
    problems = look(checkpoint.offsets)
    return {
        "checkpoint": checkpoint.checkpoint_id,
        "kind": kind,
        "verdict": "records gone" if problems else "valid",
        "problem": "; ".join(problems),
    }


def _restore(options: argparse.Namespace, checkpoints: JobCheckpoints) -> int:
    if (options.id is None) == (not options.snapshot):
        msg = "name a checkpoint or a snapshot"
        raise CommandRefused(msg, remedy="add the number of a checkpoint of `checkpoint list`, or --snapshot NAME")
    found = checkpoints.find()
    current = found.current()
    target = checkpoints.snapshot(options.snapshot) if options.snapshot else _earlier(found, options.id)
    _refuse(found, current, target)
    rewind = rewind_between(current, target)
    _print(_restore_rows(rewind, current), options.output, empty="nothing is read and written again")
    say = sys.stderr.write if options.output is Output.JSON else sys.stdout.write
    say(f"\ncheckpoint {target.checkpoint_id} of {target.created_at}: {rewind.describe()}\n")
    problems = _look_at_logs(options)(target.offsets)
    if problems:
        sys.stderr.write("nothing was changed: records are gone:\n" + "".join(f"  {problem}\n" for problem in problems))
        return 1
    if found.spec and not options.snapshot and found.earlier()[-1] == target:
        say("checkpoint is the oldest retained: the job may delete it when it retains another before it stops\n")
    if not options.yes:
        say("nothing was changed; add --yes to restore\n")
        return 0
    nonce = 1 + max(current.redeploy_nonce, int((found.spec.get("restore") or {}).get("nonce") or 0))
    wanted = Restore(checkpoint=options.id or 0, snapshot=options.snapshot, nonce=nonce)
    say(checkpoints.request_restore(found, wanted) + "\n")
    return 0


def _refuse(found: FoundJob, current: CheckpointDocument, target: RetainedCheckpoint) -> None:
    """Refuses what the driver or the API server would refuse, too."""
    refuse_without_state(current, target)
    membership = (found.spec.get("source") or {}).get("groupMembership") or {}
    if membership.get("mode") == "Subscribe":
        msg = "the job is a member of a consumer group: the group's offsets decide where partitions resume"
        raise RestoreRefused(
            msg, remedy="stop the group's members and reset its offsets with kafka-consumer-groups --reset-offsets"
        )


def _restore_rows(rewind: Rewind, current: CheckpointDocument) -> list[Row]:
    rows: list[Row] = []
    for what, splits in (("again", rewind.again), ("left out", rewind.left_out)):
        rows += [
            {
                "topic": split.partition.topic, "partition": split.partition.partition, "from": split.start,
                "to": split.stop, "records": split.size, "what": what,
            }
            for split in splits
        ]  # fmt: skip
    rows += [
        {
            "topic": partition.topic, "partition": partition.partition, "from": None, "to": current.offsets[partition],
            "records": None, "what": "again, from the beginning",
        }
        for partition in rewind.from_beginning
    ]  # fmt: skip
    return rows


def _earlier(found: FoundJob, checkpoint: int) -> RetainedCheckpoint:
    return find_retained(found.texts, checkpoint, job_uid=found.uid)


def _look_at_logs(options: argparse.Namespace) -> Look:
    if not options.bootstrap:
        if options.command_config:
            msg = "--command-config has no effect: no brokers are named"
            raise ConfigurationError(msg, remedy="add --bootstrap HOST:PORT")
        return lambda _: ()
    properties = client_properties(options.bootstrap, options.command_config, allow_insecure=options.allow_insecure)
    return lambda offsets: log_problems(offsets, properties)


def _print(rows: Sequence[Row], output: Output, *, empty: str = "nothing found") -> None:
    sys.stdout.write(render(rows, output, empty=empty) + "\n")
