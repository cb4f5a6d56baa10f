"""``--in-cluster`` of ``txn`` and ``topic``: the command as a Job, where a laptop does not reach the brokers."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import yaml

from kafkaspark.cluster.options import subcommands
from kafkaspark.cluster.pod_command import FILES, PodCommand, arguments_of
from kafkaspark.cluster.user_cluster import UserCluster
from sparkapp.cli.client_file import read_text
from sparkapp.cli.job_checkpoints import ClusterCheckpoints
from sparkapp.cli.target import BOOTSTRAP_VARIABLE
from sparkapp.model.errors import CommandRefused
from sparkapp.model.job.access.mounts import SecretFolder
from sparkapp.model.job.spec_from_resource import spec_from_resource

_READS_INPUT = frozenset({"produce"})
_LAPTOP_ALONE = frozenset({"in_cluster", "image", "namespace", "context", "job", "state", "resource", "help"})
_START_SECONDS = 180.0
_PAUSE_SECONDS = 1.0
_RESOURCE, _STATE = "resource.json", "state.json"


def add_commands(commands: Any) -> None:
    """Adds the options to the commands that are registered; called by ``kafkaspark.__main__`` behind them.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    for name in ("txn", "topic"):
        for verb, parser in subcommands(commands.choices[name]).items():
            if verb in _READS_INPUT:
                continue
            where = parser.add_argument_group("in the cluster", "the command in a pod, which reaches the brokers")
            where.add_argument(
                "--in-cluster", choices=("print", "run"), help="print the manifest of a Job, or run it and show its log"
            )
            where.add_argument("--image", default="", help="of the pod; by default that of --job")
            answer = partial(_answer, parser, [name, verb], parser.get_default("answer"))
            parser.set_defaults(answer=answer)


def _answer(parser: argparse.ArgumentParser, command: Sequence[str], here: Any, options: argparse.Namespace) -> int:
    if options.in_cluster is None:
        return int(here(options))
    try:
        cluster = UserCluster.of_context(options.context)
        pod = _pod_command(parser, command, options, cluster)
        if options.in_cluster == "run":
            return run(cluster, pod)
    except KeyboardInterrupt:
        return 1
    print(yaml.safe_dump_all(pod.manifests(), sort_keys=False), end="")
    return 0


def _pod_command(
    parser: argparse.ArgumentParser, command: Sequence[str], options: argparse.Namespace, cluster: UserCluster
) -> PodCommand:
    if options.config is not None:
        msg = "--config is a file of this machine, which the pod does not have"
        raise CommandRefused(msg, remedy="leave it out, and name the job by --job: its pod has the job's Secrets")
    namespace = options.namespace or cluster.namespace
    arguments = [*command, *arguments_of(parser, options, _LAPTOP_ALONE)]
    bootstrap = os.environ.get(BOOTSTRAP_VARIABLE)  # of this machine
    if bootstrap and command[0] == "topic" and options.job is None and not options.bootstrap:
        arguments += ["--bootstrap", bootstrap]
    files: dict[str, str] = {}
    folders: tuple[SecretFolder, ...] = ()
    image: str = options.image
    pull_secrets: tuple[str, ...] = ()
    if options.job:
        options.namespace = namespace
        body = cluster.job(namespace, options.job)
        files, folders = _resource_of(body), _secrets_of(body)
        if command[0] == "txn":
            files |= _document_of(options)
        arguments += ["--resource", f"{FILES}/{_RESOURCE}"]
        image = image or image_of(body, cluster.pods(namespace, options.job))
        pull_secrets = tuple(str(each["name"]) for each in body["spec"].get("imagePullSecrets") or ())
    if getattr(options, "state", None) is not None:
        files[_STATE] = read_text(options.state)
    if _STATE in files:
        arguments += ["--state", f"{FILES}/{_STATE}"]
    if not image:
        msg = "the image of the pod is not known"
        raise CommandRefused(msg, remedy="add --image, with the image of your jobs")
    name = f"kafkaspark-{'-'.join(command)}-{secrets.token_hex(3)}"
    return PodCommand(
        name=name, namespace=namespace, image=image, arguments=arguments, files=files, secrets=folders,
        pull_secrets=pull_secrets,
    )  # fmt: skip


def _resource_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The resource as a file: the pod has no rights in the API."""
    meta = {name: body["metadata"][name] for name in ("name", "namespace", "uid")}
    state = {"state": (body.get("status") or {}).get("state", "")}
    return {_RESOURCE: json.dumps({"metadata": meta, "spec": body["spec"], "status": state})}


def _document_of(options: argparse.Namespace) -> dict[str, str]:
    """The checkpoint document as a file, if there is one.

    :raises KafkaSparkJobError: the job has lost its document.
    """
    found = ClusterCheckpoints(namespace=options.namespace, job=options.job, context=options.context).find()
    if found.lost is not None:
        raise found.lost
    return {} if found.text is None else {_STATE: found.text}


def _secrets_of(body: Mapping[str, Any]) -> tuple[SecretFolder, ...]:
    meta = body["metadata"]
    clusters = spec_from_resource(body["spec"], namespace=meta["namespace"], name=meta["name"]).clusters
    if any(kafka.has_own_token for kafka in clusters):
        msg = "the job authenticates with a token of its service account, which only its pods have"
        raise CommandRefused(msg, remedy="run the command where a file of client properties is: --config FILE")
    return tuple(folder for kafka in clusters for folder in kafka.folders)


def image_of(body: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    """The image of the resource, else that of its pods, which may be the chart's default."""
    images = [str(body["spec"].get("image") or ""), *(str(pod["spec"]["containers"][0]["image"]) for pod in pods)]
    return next(filter(None, images), "")


def run(cluster: UserCluster, pod: PodCommand) -> int:
    """Runs the command in the cluster and prints its log; the exit status is the command's. The Job is deleted.

    :raises CommandRefused: the API server refuses the Job, or its pod does not start.
    """
    namespace = quote(pod.namespace, safe="")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    created = cluster.create(jobs, pod.job())
    try:
        if pod.files:
            cluster.create(
                f"/api/v1/namespaces/{namespace}/configmaps", pod.config_map(str(created["metadata"]["uid"]))
            )
        name = str(_started(cluster, pod)["metadata"]["name"])
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        for line in cluster.lines(f"{path}/log", {"follow": "true"}):
            print(line, flush=True)
        return _exit_status(cluster, path)
    finally:
        cluster.delete(f"{jobs}/{pod.name}")


def _started(cluster: UserCluster, pod: PodCommand) -> dict[str, Any]:
    deadline = time.monotonic() + _START_SECONDS
    said = ""
    while True:
        query = {"labelSelector": f"job-name={pod.name}"}
        for found in cluster.items(f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods", query):
            status = found.get("status") or {}
            if status.get("phase") in {"Running", "Succeeded", "Failed"}:
                return dict(found)
            waits = _why(status)
            if waits != said:
                said = waits
                sys.stderr.write(f"{said}\n")
        if time.monotonic() > deadline:
            msg = f"the pod of Job {pod.namespace}/{pod.name} has not started in {_START_SECONDS:g} s: {said or 'none'}"
            raise CommandRefused(msg, remedy=f"look at the events: kubectl get events -n {pod.namespace}")
        time.sleep(_PAUSE_SECONDS)


def _why(status: Mapping[str, Any]) -> str:
    """Why a pod does not run yet."""
    waiting = [(each.get("state") or {}).get("waiting") or {} for each in status.get("containerStatuses") or ()]
    unscheduled = [each.get("message") for each in status.get("conditions") or () if each.get("reason")]
    texts = [f"{each.get('reason', '')} {each.get('message', '')}".strip() for each in waiting if each]
    return "; ".join(filter(None, [*texts, *map(str, unscheduled)])) or "the pod is not scheduled yet"


def _exit_status(cluster: UserCluster, path: str) -> int:
    while True:
        (container,) = (cluster.get(path).get("status") or {}).get("containerStatuses") or [{}]
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            return int(ended["exitCode"])
        time.sleep(_PAUSE_SECONDS)
