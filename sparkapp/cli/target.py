"""Reads the options of a ``txn`` command into a connection and a checkpoint document."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkapp.cli.client_file import add_allow_insecure, read_properties, read_text
from sparkapp.cli.job_secrets import job_security
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CommandRefused, InputUnreadable
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import JobSpec

DEFAULT_POOL_SIZE = 5
CLIENT_ID = "sparkapp-txn"
BOOTSTRAP_VARIABLE = "KAFKASPARK_BOOTSTRAP"
"""The environment's default of ``kafkaspark topic --bootstrap``; ``make cluster-up`` prints its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The cluster and the job that the common options name.

    :param config: librdkafka properties of the cluster that has the transactions.
    :param prefixes: the job's present and previous transactional id prefixes; empty for all.
    :param document: the job's checkpoint document; None if none is named or none is written yet.
    :param has_state: whether a document is named. If none is written yet, no transaction is final.
    :param pool_size: ids of a subtask.
    :param state: ``status.state`` of the resource; empty if no resource is named.
    :param spec: of the resource; None if none is named.
    """

    config: Mapping[str, str]
    prefixes: tuple[str, ...]
    document: CheckpointDocument | None
    has_state: bool
    pool_size: int
    state: str = ""
    spec: JobSpec | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that :func:`target_of` reads; called for each ``txn`` command."""
    cluster = parser.add_argument_group("cluster", "Kafka brokers, by default those of the job's sink")
    cluster.add_argument("--bootstrap", metavar="HOST:PORT", help="bootstrap brokers")
    cluster.add_argument(
        "--config", type=Path, metavar="FILE", help="client properties (librdkafka's names) for SASL and TLS"
    )
    add_allow_insecure(cluster)
    job = parser.add_argument_group("job", "the job that owns the transactions, and its checkpoint")
    add_resource_options(job, has="its cluster, prefix and checkpoint")
    job.add_argument("--state", type=Path, metavar="FILE", help="file with the checkpoint document")
    job.add_argument("--prefix", help="transactional id prefix; ids are PREFIX-number or PREFIX-subtask.slot")
    job.add_argument(
        "--pool-size", type=int, metavar="N",
        help=f"sink.transactions.producersPoolSize of a job without --job, by default {DEFAULT_POOL_SIZE}",
    )  # fmt: skip


def add_resource_options(parser: Any, *, has: str) -> None:
    """Adds the options that name a job, to a parser or to a group of options.

    :param has: what the command takes from the job, for the help.
    """
    add_cluster_options(parser)
    parser.add_argument("--job", metavar="NAME", help=f"name of the KafkaSparkJob, with {has}")
    parser.add_argument(
        "--resource", type=Path, metavar="FILE", help="in a pod with the job's Secrets: the KafkaSparkJob as JSON"
    )


def add_cluster_options(parser: Any) -> None:
    """Adds the options that say where a resource is, to a parser or to a group of options."""
    parser.add_argument("--namespace", "-n", default="", help="of the KafkaSparkJob; by default that of the context")
    parser.add_argument("--context", default="", help="of the kubeconfig; by default the current context")


def find_namespace(options: argparse.Namespace) -> None:
    """Sets ``options.namespace`` where the command names a job and no namespace."""
    if options.job and not options.namespace:
        from sparkapp.checkpoint.kubernetes.config_map import own_namespace

        options.namespace = own_namespace(options.context)


def cluster_of_job(options: argparse.Namespace) -> dict[str, str]:
    """The librdkafka properties of a job's cluster, with its credentials.

    :param options: of :func:`add_resource_options`, with a job or a resource. ``sink`` chooses the cluster of the sink.
    :raises CommandRefused: the resource or a Secret cannot be read.
    """
    find_namespace(options)
    spec, _, _ = _resource(options)
    return _cluster(spec.sink_cluster if options.sink else spec.kafka, options)


def target_of(options: argparse.Namespace) -> Target:
    """Reads the options of :func:`add_options` and the files or resources that they name.

    :raises CommandRefused: they name no cluster, or a file or resource that cannot be read.
    :raises CheckpointCorrupt: the document is not valid.
    """
    config = {}
    if options.config is not None:
        config = read_properties(options.config, allow_insecure=options.allow_insecure)
    document, known, pool_size, state, spec = None, [], options.pool_size, "", None
    find_namespace(options)
    if options.job is not None or options.resource is not None:
        spec, uid, state = _resource(options)
        # The user's file replaces all of the job's credentials.
        config = {**(_cluster(spec.sink_cluster, options) if not config else {}), **config}
        config.setdefault("bootstrap.servers", spec.sink_cluster.bootstrap_servers)
        known.append(spec.sink.transactional_id_prefix)
        pool_size = pool_size or spec.sink.producers_pool_size
        if options.state is None and options.resource is None:
            document = _document_of_job(options, uid)
    if options.state is not None:
        document = document_of_file(options.state)
    if options.bootstrap:
        config["bootstrap.servers"] = options.bootstrap
    if not config.get("bootstrap.servers"):
        msg = "no brokers are named"
        raise CommandRefused(msg, remedy="add --bootstrap HOST:PORT, or --namespace and --job of a KafkaSparkJob")
    if document is not None:
        known += document.prefixes
    if options.prefix and known and options.prefix not in known:
        msg = f"the job's prefix is {known[0]}: its checkpoint says nothing about {options.prefix}"
        raise CommandRefused(msg, remedy="remove --prefix, or remove --job and --state")
    return Target(
        config={"client.id": CLIENT_ID, **config},
        prefixes=(options.prefix,) if options.prefix else tuple(dict.fromkeys(known)),
        document=document,
        has_state=options.job is not None or options.state is not None,
        pool_size=pool_size or DEFAULT_POOL_SIZE,
        state=state,
        spec=spec,
    )


def document_of_file(path: Path) -> CheckpointDocument | None:
    """The document of a state file of ``run --state``, or of a copy from the ConfigMap.

    :raises InputUnreadable: the file cannot be read.
    :raises CheckpointCorrupt: it has no valid document.
    """
    text = stored_text(path)
    if not text.strip():
        return None
    try:
        uid = json.loads(text).get("jobUid", "")
    except (ValueError, AttributeError):
        uid = ""  # decode() raises the error
    return decode(text, job_uid=str(uid))


def stored_text(path: Path) -> str:
    """The document's text in such a file.

    :raises InputUnreadable: the file cannot be read.
    """
    text = read_text(path)
    # The store's counter is in the first line.
    return text if text.lstrip().startswith("{") else text.partition("\n")[2]


def _document_of_job(options: argparse.Namespace, uid: str) -> CheckpointDocument | None:
    from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapStore
    from sparkapp.checkpoint.kubernetes.config_map import core_api
    from sparkapp.checkpoint.kubernetes.user_access import as_person

    store = ConfigMapStore(
        core_api(options.context), namespace=options.namespace, job=options.job, uid=uid, deadline=10
    )  # fmt: skip
    with as_person(options.namespace, names.state_config_map(options.job)):
        text = store.read().text
    return None if text is None else decode(text, job_uid=uid)


def _resource(options: argparse.Namespace) -> tuple[JobSpec, str, str]:
    from sparkapp.model.job.spec_from_resource import spec_from_resource

    if options.resource is None:
        from sparkapp.checkpoint.kubernetes.job_resource import read_resource

        body = read_resource(options.namespace, options.job, options.context)
    else:
        body = _resource_of_file(options.resource)
        options.namespace, options.job = body["metadata"]["namespace"], body["metadata"]["name"]
    status = body.get("status") or {}
    spec = spec_from_resource(
        body["spec"], namespace=options.namespace, name=options.job, cluster=str(status.get("clusterId") or "")
    )
    return spec, str(body["metadata"]["uid"]), str(status.get("state", ""))


def _resource_of_file(path: Path) -> dict[str, Any]:
    """:raises InputUnreadable: the file cannot be read, or is no KafkaSparkJob."""
    text = read_text(path)
    try:
        body = json.loads(text)
        meta = body["metadata"]
        if all(isinstance(meta[name], str) for name in ("name", "namespace", "uid")) and isinstance(body["spec"], dict):
            return dict(body)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    msg = f"{path} is no {names.KIND} as JSON"
    raise InputUnreadable(msg, remedy="write it: kubectl get ksj NAME -n NAMESPACE -o json")


def _cluster(kafka: KafkaCluster, options: argparse.Namespace) -> dict[str, str]:
    from sparkapp.model.job.client.config import cluster_config

    if options.resource is None:
        security = job_security(kafka, options.namespace, options.context)
    else:
        security = read_security(kafka)
    return cluster_config(kafka, security=security, client_id=CLIENT_ID)
