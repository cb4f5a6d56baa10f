"""``kafkaspark snapshot JOB``: keeps the last completed checkpoint of a job, and waits until it is kept.

``snapshot export NAME`` and ``snapshot import FILE`` take a snapshot to another namespace or cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kafkaspark.cluster.snapshot_file import as_text, exported, read_manifest, state_note
from kafkaspark.cluster.user_cluster import UserCluster, resources_path
from kafkasparkjob_operator.identity import API_VERSION
from sparkapp.cli.table import Output
from sparkapp.cli.target import add_cluster_options
from sparkapp.model import names
from sparkapp.model.errors import CommandRefused

_EXPORT, _IMPORT = "export", "import"
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = 330
"""The operator gives up after 300 s where a job has no checkpoint yet."""
_EXAMPLES = """\
examples:
  kafkaspark snapshot orders-upper --name before-upgrade
  kafkaspark snapshot orders-upper --namespace shop --output json | jq -r .metadata.name
  kafkaspark snapshot export before-upgrade --namespace shop --output before-upgrade.yaml
  kafkaspark snapshot import before-upgrade.yaml --namespace shop-2 --context another-cluster

The snapshot is a KafkaSparkSnapshot: `kubectl get kss` lists them, and `kubectl delete kss NAME` deletes it.
"""


def add_commands(commands: Any) -> None:
    """Registers ``snapshot``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "keep the last completed checkpoint of a job, also after the job; or export and import a snapshot"
    command = commands.add_parser(
        "snapshot", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("job", metavar="JOB", help="name of the KafkaSparkJob; or the word export or import")
    command.add_argument(
        "target", nargs="?", default="", metavar="NAME|FILE", help="a snapshot to export, or a file to import"
    )
    add_cluster_options(command)
    command.add_argument(
        "--name", default="", help="of the snapshot; by default the job's with the time in UTC, or that of the file"
    )
    command.add_argument(
        "--timeout", type=int, default=_TIMEOUT_SECONDS, metavar="S",
        help=f"wait at most S seconds until it is Ready, by default {_TIMEOUT_SECONDS}; 0 does not wait",
    )  # fmt: skip
    command.add_argument(
        "--output", "-o", default="", metavar="table|json|FILE",
        help="json is the KafkaSparkSnapshot; of export a file for `kubectl apply`, by default the standard output",
    )  # fmt: skip
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    try:
        cluster = UserCluster.of_context(options.context)
        namespace = options.namespace or cluster.namespace
        if options.target and options.job == _EXPORT:
            manifest = exported(cluster, namespace, options.target)
            _write(as_text(manifest), options.output)
            sys.stderr.write(state_note(manifest))
            return 0
        output = _output(options.output)
        if options.target and options.job != _IMPORT:
            msg = f"{options.job} is neither export nor import, and {options.target} follows it"
            raise CommandRefused(msg, remedy="kafkaspark snapshot --help")
        if options.target:
            manifest = read_manifest(Path(options.target), name=options.name)
            job, name = manifest["spec"]["jobRef"]["name"], manifest["metadata"]["name"]
        else:
            job, name = options.job, options.name or f"{options.job}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
            cluster.job(namespace, job)
            manifest = _manifest(name, job)
        snapshot = cluster.create(resources_path(namespace, names.SNAPSHOT_PLURAL), manifest)
        if options.timeout:
            snapshot = _await_end(cluster, namespace, name, seconds=options.timeout)
    except KeyboardInterrupt:
        return 1
    is_ready = (snapshot.get("status") or {}).get("state") == "Ready"
    print(json.dumps(snapshot, indent=2) if output is Output.JSON else _as_text(snapshot, job))
    return 0 if is_ready or not options.timeout else 1


def _output(text: str) -> Output:
    """:raises CommandRefused: it is no format."""
    if text not in {"", *Output}:
        raise CommandRefused(f"--output {text} is neither table nor json", remedy="only export writes a file")
    return Output(text or Output.TABLE)


def _write(text: str, path: str) -> None:
    """:raises CommandRefused: the file exists, or cannot be written."""
    if path in {"", "-"}:
        sys.stdout.write(text)
        return
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", remedy="name another file") from error


def _manifest(name: str, job: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION, "kind": names.SNAPSHOT_KIND, "metadata": {"name": name},
        "spec": {"jobRef": {"name": job}},
    }  # fmt: skip


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
