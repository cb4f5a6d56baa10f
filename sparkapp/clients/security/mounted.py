"""The properties of the job's clusters as a pod's clients use them: a snapshot of the mounted Secrets.

librdkafka reads certificate and key for each client that it creates, and each transaction has a client of its own.
Spark starts Python workers during the whole attempt, and a worker opens clients when a task needs them. Without a
snapshot new content would be in use before anybody knows that the brokers accept it.
``ssl.certificate.pem`` would not do: librdkafka takes its first certificate only, and drops authorities in between.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sparkapp.clients.security.tls_diagnosis import tls_context, uses_tls
from sparkapp.model.job.client.config import OfClusters
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import JobSpec

_LOCATIONS = ("ssl.certificate.location", "ssl.key.location")
_copies: dict[bytes, str] = {}
_held: dict[KafkaCluster, dict[str, str]] = {}


def mounted_security(kafka: KafkaCluster, directory: Path | None = None) -> dict[str, str]:
    """The present properties, with a copy of certificate and key; equal as long as the Secrets are.

    Called where the brokers refuse a worker's held properties.

    :param directory: by default the pod's.
    :raises CredentialsUnusable: a Secret is not mounted, lacks a key, or holds something else.
    """
    security = read_security(kafka, directory)
    return {name: _copied(value) if name in _LOCATIONS else value for name, value in security.items()}


def mounted_securities(spec: JobSpec, directory: Path | None = None) -> OfClusters:
    """:func:`mounted_security` of both clusters; called by the driver. One cluster's Secrets are read once.

    :raises CredentialsUnusable: as there.
    """
    found = [mounted_security(cluster, directory) for cluster in spec.clusters]
    return OfClusters(found[0], found[-1])


def held_security(kafka: KafkaCluster) -> dict[str, str]:
    """The properties that this process, or the process it was forked from, read first.

    Called for a worker's clients, and by the worker daemon before it forks (ADR 47).

    :raises CredentialsUnusable: as :func:`mounted_security`.
    """
    if kafka not in _held:
        _held[kafka] = mounted_security(kafka)
    return _held[kafka]


def check_usable(security: Mapping[str, str]) -> None:
    """Loads certificates and key. librdkafka would refuse them as it refuses a property of the resource.

    Called before clients are created.

    :raises CredentialsUnusable: another content of the Secret solves it.
    """
    if uses_tls(security):
        tls_context(security)


def _copied(file: str) -> str:
    """The name of a file in memory with the same content, for this process and its forks; one for each content."""
    content = Path(file).read_bytes()
    if content not in _copies:
        descriptor = os.memfd_create("credentials")
        with os.fdopen(descriptor, "wb", closefd=False) as copy:
            copy.write(content)
        _copies[content] = f"/proc/self/fd/{descriptor}"
    return _copies[content]
