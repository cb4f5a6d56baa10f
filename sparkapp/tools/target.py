"""Which cluster and which job a command for people is about: its options, read into a connection and a document."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.checkpoint_codec import decode
from sparkapp.model.errors import CommandRefused
from sparkapp.model.job import JobSpec
from sparkapp.tools.client_file import read_properties, read_text

DEFAULT_POOL_SIZE = 5
CLIENT_ID = "sparkapp-txn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the common options say.

    :param config: librdkafka properties of the cluster.
    :param prefixes: the job's transactional id prefix and former ones; empty for all.
    :param document: the job's checkpoint document, or None where none was named or none is written yet.
    :param has_state: whether a place of the document was named; its absence there says that nothing is final.
    :param pool_size: ids of a subtask.
    :param state: ``status.state`` of the resource; empty where no resource was named.
    """

    config: Mapping[str, str]
    prefixes: tuple[str, ...]
    document: CheckpointDocument | None
    has_state: bool
    pool_size: int
    state: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that :func:`target_of` reads."""
    cluster = parser.add_argument_group("cluster", "which brokers; by default those of the job")
    cluster.add_argument("--bootstrap", metavar="HOST:PORT", help="the brokers to ask first")
    cluster.add_argument(
        "--config", type=Path, metavar="FILE", help="client properties (librdkafka's names) for SASL and TLS"
    )
    job = parser.add_argument_group("job", "whose transactions, and what its checkpoint says of them")
    job.add_argument("--namespace", default="default", help="of the KafkaSparkJob")
    job.add_argument("--job", metavar="NAME", help="the KafkaSparkJob: its cluster, prefix and checkpoint")
    job.add_argument("--state", type=Path, metavar="FILE", help="a file with the checkpoint document")
    job.add_argument("--prefix", help="transactional id prefix; ids are PREFIX-number or PREFIX-subtask.slot")
    job.add_argument(
        "--pool-size", type=int, metavar="N", help=f"sink.producersPoolSize, where --job is not given (by default "
        f"{DEFAULT_POOL_SIZE})",
    )  # fmt: skip


def target_of(options: argparse.Namespace) -> Target:
    """Reads the options of :func:`add_options`, and what they name.

    :raises CommandRefused: they name no cluster, or a file or resource that cannot be read.
    :raises CheckpointCorrupt: the document cannot be trusted.
    """
    config = read_properties(options.config) if options.config is not None else {}
    document, known, pool_size, state = None, [], options.pool_size, ""
    if options.job is not None:
        spec, uid, state = _resource(options.namespace, options.job)
        # A person's own file wins over the job's credentials, a whole set over a whole set.
        config = {**(_cluster(spec, options) if not config else {}), **config}
        config.setdefault("bootstrap.servers", spec.kafka.bootstrap_servers)
        known.append(spec.sink.transactional_id_prefix)
        pool_size = pool_size or spec.sink.producers_pool_size
        if options.state is None:
            document = _document_of_job(options.namespace, options.job, uid)
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
        msg = f"the job writes under the prefix {known[0]}, so its checkpoint says nothing about {options.prefix}"
        raise CommandRefused(msg, remedy="leave --prefix out, or leave --job and --state out")
    return Target(
        config={"client.id": CLIENT_ID, **config},
        prefixes=(options.prefix,) if options.prefix else tuple(dict.fromkeys(known)),
        document=document,
        has_state=options.job is not None or options.state is not None,
        pool_size=pool_size or DEFAULT_POOL_SIZE,
        state=state,
    )


def document_of_file(path: Path) -> CheckpointDocument | None:
    """A document that ``run --state`` wrote, or one that was copied out of the ConfigMap.

    :raises CommandRefused: no such file. :raises CheckpointCorrupt: it is not a document.
    """
    text = read_text(path)
    if not text.lstrip().startswith("{"):  # the store's counter is in the first line
        text = text.partition("\n")[2]
    if not text.strip():
        return None
    try:
        uid = json.loads(text).get("jobUid", "")
    except (ValueError, AttributeError):
        uid = ""  # decode() says what is wrong
    return decode(text, job_uid=str(uid))


def _document_of_job(namespace: str, job: str, uid: str) -> CheckpointDocument | None:
    from sparkapp.checkpoint.config_map import ConfigMapStore, core_api

    text = ConfigMapStore(core_api(), namespace=namespace, job=job, deadline=10).read().text
    return None if text is None else decode(text, job_uid=uid)


def _resource(namespace: str, job: str) -> tuple[JobSpec, str, str]:
    from sparkapp.checkpoint.config_map import read_resource
    from sparkapp.model.job_resource import spec_from_resource

    body = read_resource(namespace, job)
    spec = spec_from_resource(body["spec"], namespace=namespace, name=job)
    return spec, str(body["metadata"]["uid"]), str((body.get("status") or {}).get("state", ""))


def _cluster(spec: JobSpec, options: argparse.Namespace) -> dict[str, str]:
    from sparkapp.checkpoint.config_map import read_secret
    from sparkapp.model.client_config import cluster_config

    login = spec.kafka.authentication
    password = "" if login is None else read_secret(options.namespace, login.secret_name, login.secret_key)
    return cluster_config(spec.kafka, password=password, client_id=CLIENT_ID)
