"""``kafkaspark snapshot JOB``: keeps the last completed checkpoint of a job, and waits until it is kept."""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from kafkaspark.cluster.options import add_job_options
from kafkaspark.cluster.user_cluster import UserCluster, resources_path
from kafkasparkjob_operator.identity import API_VERSION
from sparkapp.cli.table import Output, refuse
from sparkapp.model import names
from sparkapp.model.errors import CommandRefused

_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = 330
"""The operator gives up after 300 s where a job has no checkpoint yet."""
_EXAMPLES = """\
examples:
  kafkaspark snapshot orders-upper --name before-upgrade
  kafkaspark snapshot orders-upper --namespace shop --output json | jq -r .metadata.name

The snapshot is a KafkaSparkSnapshot: `kubectl get kss` lists them, and `kubectl delete kss NAME` deletes it.
"""


def add_commands(commands: Any) -> None:
    """Registers ``snapshot``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "keep the last completed checkpoint of a job, also after the job"
    command = commands.add_parser(
        "snapshot", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_job_options(command)
    command.add_argument("--name", default="", help="of the snapshot; by default the job's with the time in UTC")
    command.add_argument(
        "--timeout", type=int, default=_TIMEOUT_SECONDS, metavar="S",
        help=f"wait at most S seconds until it is Ready, by default {_TIMEOUT_SECONDS}; 0 does not wait",
    )  # fmt: skip
    command.add_argument(
        "--output", "-o", type=Output, choices=list(Output), default=Output.TABLE, help="json is the KafkaSparkSnapshot"
    )
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    try:
        cluster = UserCluster.of_context(options.context)
        namespace = options.namespace or cluster.namespace
        cluster.job(namespace, options.job)
        name = options.name or f"{options.job}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        snapshot = _create(cluster, namespace, name, options.job)
        if options.timeout:
            snapshot = _await_end(cluster, namespace, name, seconds=options.timeout)
    except CommandRefused as refusal:
        refuse(refusal)
        return 1
    except KeyboardInterrupt:
        return 1
    is_ready = (snapshot.get("status") or {}).get("state") == "Ready"
    print(json.dumps(snapshot, indent=2) if options.output is Output.JSON else _as_text(snapshot, options.job))
    return 0 if is_ready or not options.timeout else 1


def _create(cluster: UserCluster, namespace: str, name: str, job: str) -> dict[str, Any]:
    body = {
        "apiVersion": API_VERSION, "kind": names.SNAPSHOT_KIND, "metadata": {"name": name, "namespace": namespace},
        "spec": {"jobRef": {"name": job}},
    }  # fmt: skip
    return cluster.create(resources_path(namespace, names.SNAPSHOT_PLURAL), body)


def _await_end(cluster: UserCluster, namespace: str, name: str, *, seconds: int) -> dict[str, Any]:
    """The snapshot when it is Ready.

    :raises CommandRefused: it failed, or is not Ready in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        snapshot = cluster.get(f"{resources_path(namespace, names.SNAPSHOT_PLURAL)}/{quote(name, safe='')}")
        status = snapshot.get("status") or {}
        if status.get("state") == "Ready":
            return snapshot
        said = str(status.get("message") or "the operator has not seen it")
        if status.get("state") == "Failed":
            msg = f"snapshot {namespace}/{name} failed with {status.get('reason')}: {said}"
            raise CommandRefused(msg, remedy=f"delete it, and take another: kubectl delete kss {name} -n {namespace}")
        if time.monotonic() > deadline:
            msg = f"snapshot {namespace}/{name} is not Ready after {seconds} s: {said}"
            raise CommandRefused(msg, remedy=f"it stays and may become Ready: kubectl get kss {name} -n {namespace} -w")
        time.sleep(_PAUSE_SECONDS)


def _as_text(snapshot: dict[str, Any], job: str) -> str:
    name, namespace = snapshot["metadata"]["name"], snapshot["metadata"]["namespace"]
    checkpoint = (snapshot.get("status") or {}).get("checkpoint")
    if not checkpoint:
        return f"snapshot {namespace}/{name} is created; look at it: kubectl get kss {name} -n {namespace}"
    return (
        f"snapshot {namespace}/{name} holds checkpoint {checkpoint['id']} of {checkpoint['time']}:"
        f" {checkpoint.get('partitions', '?')} partition(s)\n\n"
        f"$ kafkaspark restore {job} --namespace {namespace} --snapshot {name}"
    )
