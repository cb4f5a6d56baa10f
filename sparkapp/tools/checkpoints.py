"""``python -m sparkapp checkpoint list | show | verify | restore``: a job's checkpoints, for people."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkapp.checkpoint.restore import Rewind, find_retained, refuse_state, rewind_between
from sparkapp.checkpoint.retained import MemoryRetainedStore
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import ConfigurationError, KafkaSparkJobError, RestoreRefused
from sparkapp.model.partition import TopicPartition
from sparkapp.model.retained import RetainedCheckpoint, retained
from sparkapp.tools.job_place import FoundJob, JobPlace, place_of
from sparkapp.tools.log_ranges import client_properties, log_problems
from sparkapp.tools.table import Output, render

Row = dict[str, object]


def add_commands(commands: Any) -> None:
    """Registers ``checkpoint`` and what follows it; called by the program's entry once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned. ``answer`` of the parsed options carries the
        command out and returns the exit status.
    """
    parser = commands.add_parser("checkpoint", help="list, show, verify and restore a job's checkpoints")
    kinds = parser.add_subparsers(dest="checkpoint_command", required=True)
    for name, what, answer in (
        ("list", "the current checkpoint and the earlier ones that are kept", _list),
        ("show", "where each partition goes on after a checkpoint; the current one without ID", _show),
        ("verify", "decode every checkpoint and, with --bootstrap, look whether its records still exist", _verify),
        ("restore", "show what going back to a checkpoint reads and writes again; with --yes, go back", _restore),
    ):
        one = kinds.add_parser(name, help=what, description=what)
        one.add_argument("--namespace", "-n", default="default", help="of the KafkaSparkJob")
        one.add_argument("--job", help="name of the KafkaSparkJob; needs a kubeconfig, or a pod's rights")
        one.add_argument("--state", type=Path, help="state file of a job that runs without Kubernetes")
        one.add_argument("--output", "-o", type=Output, choices=list(Output), default=Output.TABLE)
        if name in ("show", "restore"):
            one.add_argument("id", type=int, nargs="?" if name == "show" else None, metavar="ID", help="a checkpoint")
        if name in ("verify", "restore"):
            one.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka brokers to compare the offsets with")
            one.add_argument(
                "--command-config", type=Path, metavar="FILE", help="client properties, name=value, for those brokers"
            )
        if name == "restore":
            one.add_argument("--yes", action="store_true", help="go back; without it nothing is changed")
        one.set_defaults(answer=_answering(answer))


def _answering(answer: Callable[[argparse.Namespace, JobPlace], int]) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        try:
            place = place_of(state=options.state, namespace=options.namespace, job=options.job)
            return answer(options, place)
        except KafkaSparkJobError as error:
            sys.stderr.write(f"{error.reason}: {error.message}\n{error.remedy}\n")
            return 1

    return run


def _list(options: argparse.Namespace, place: JobPlace) -> int:
    found = place.find()
    rows: list[Row] = []
    every: list[tuple[RetainedCheckpoint | KafkaSparkJobError, str]] = [(one, "retained") for one in found.earlier()]
    if found.text is not None or found.lost is not None:
        every.insert(0, (_current(found), "current"))
    for one, kind in every:
        if isinstance(one, RetainedCheckpoint):
            rows.append(_list_row(one, kind))
        else:
            rows.append(dict.fromkeys(_list_row(_NOTHING, "")) | {"kind": f"{kind}, unusable", "note": one.message})
    _print(rows, options.output, empty="no checkpoint yet")
    return 0


def _current(found: FoundJob) -> RetainedCheckpoint | KafkaSparkJobError:
    try:
        return retained(found.current())
    except KafkaSparkJobError as error:
        return error


_NOTHING = RetainedCheckpoint(job_uid="", attempt=1, checkpoint_id=1, created_at="")


def _list_row(one: RetainedCheckpoint, kind: str) -> Row:
    return {
        "checkpoint": one.checkpoint_id,
        "time": one.created_at,
        "kind": kind,
        "attempt": one.attempt,
        "partitions": len(one.offsets),
        "recordsIn": one.records_in,
        "recordsOut": one.records_out,
        "note": "orderly stop" if one.orderly else "",
    }


def _show(options: argparse.Namespace, place: JobPlace) -> int:
    found = place.find()
    current = _current(found)
    now: Mapping[TopicPartition, int] = {}
    if isinstance(current, RetainedCheckpoint):
        one = current if options.id in (None, current.checkpoint_id) else _earlier(found, options.id)
        now = current.offsets
    elif options.id is None:
        raise current
    else:
        # What a person starts a job anew with whose state is gone.
        one = _earlier(found, options.id)
    bounded = {"stop": one.stops.get} if one.stopping else {}
    rows: list[Row] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": offset,
            **{name: stop(partition) for name, stop in bounded.items()},
            "behindCurrent": now[partition] - offset if partition in now else None,
        }
        for partition, offset in sorted(one.offsets.items())
    ]
    _print(rows, options.output, empty=f"checkpoint {one.checkpoint_id} knows no partition")
    return 0


def _verify(options: argparse.Namespace, place: JobPlace) -> int:
    found = place.find()
    look = _look_at_logs(options)
    rows = [_verdict("current", _current(found), look), *(_verdict("retained", one, look) for one in found.earlier())]
    _print(rows, options.output)
    wrong = sum(row["verdict"] != "right" for row in rows)
    if wrong:
        sys.stderr.write(f"{wrong} of {len(rows)} checkpoint(s) cannot be gone on from as they are\n")
    return 1 if wrong else 0


Look = Callable[[Mapping[TopicPartition, int]], Sequence[str]]


def _verdict(kind: str, one: RetainedCheckpoint | KafkaSparkJobError, look: Look) -> Row:
    if isinstance(one, KafkaSparkJobError):
        return {"checkpoint": None, "kind": kind, "verdict": "unreadable", "problem": one.message}
    problems = look(one.offsets)
    return {
        "checkpoint": one.checkpoint_id,
        "kind": kind,
        "verdict": "records gone" if problems else "right",
        "problem": "; ".join(problems),
    }


def _restore(options: argparse.Namespace, place: JobPlace) -> int:
    found = place.find()
    current = found.current()
    _refuse(found, current, options.id)
    target = _earlier(found, options.id)
    rewind = rewind_between(current, target)
    _print(_restore_rows(rewind, current), options.output, empty="nothing is read and written again")
    say = sys.stderr.write if options.output is Output.JSON else sys.stdout.write
    say(f"\ncheckpoint {target.checkpoint_id} of {target.created_at}: {rewind.describe()}\n")
    problems = _look_at_logs(options)(target.offsets)
    if problems:
        sys.stderr.write("nothing was changed, for records are gone:\n" + "".join(f"  {one}\n" for one in problems))
        return 1
    if found.spec and found.earlier()[-1] == target:
        say("it is the oldest that is kept: should the job keep another one before it stops, this one may go\n")
    if not options.yes:
        say("nothing was changed; add --yes to go back\n")
        return 0
    nonce = 1 + max(current.redeploy_nonce, int(found.spec.get("redeployNonce") or 0))
    say(place.request_restore(found, checkpoint=target.checkpoint_id, nonce=nonce) + "\n")
    return 0


def _refuse(found: FoundJob, current: CheckpointDocument, checkpoint: int) -> None:
    """What the driver or the API server would refuse as well."""
    refuse_state(current, checkpoint)
    membership = (found.spec.get("source") or {}).get("groupMembership") or {}
    if membership.get("mode") == "Subscribe":
        msg = "the job is a member of a consumer group, whose offsets say where partitions go on"
        raise RestoreRefused(msg, remedy="stop the group's members and use kafka-consumer-groups --reset-offsets")


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
            "topic": one.topic, "partition": one.partition, "from": None, "to": current.offsets[one], "records": None,
            "what": "again, from the beginning",
        }
        for one in rewind.begun_anew
    ]  # fmt: skip
    return rows


def _earlier(found: FoundJob, checkpoint: int) -> RetainedCheckpoint:
    return find_retained(MemoryRetainedStore(found.texts), checkpoint, job_uid=found.uid)


def _look_at_logs(options: argparse.Namespace) -> Look:
    if not options.bootstrap:
        if options.command_config:
            msg = "--command-config says how to reach brokers, and none are named"
            raise ConfigurationError(msg, remedy="add --bootstrap HOST:PORT")
        return lambda _: ()
    properties = client_properties(options.bootstrap, options.command_config)
    return lambda offsets: log_problems(offsets, properties)


def _print(rows: Sequence[Row], output: Output, *, empty: str = "nothing found") -> None:
    sys.stdout.write(render(rows, output, empty=empty) + "\n")
