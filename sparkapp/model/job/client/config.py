"""librdkafka configuration shared by source, sink and control plane: where the brokers are and who we are.

Pure: the password is a parameter. In a pod it is read from the mounted Secret (:func:`read_password`), so that neither
the job description nor Spark's configuration ever carries it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spec import AuthenticationType, Job, KafkaCluster

_MECHANISMS = {
    AuthenticationType.PLAIN: "PLAIN",
    AuthenticationType.SCRAM_SHA_256: "SCRAM-SHA-256",
    AuthenticationType.SCRAM_SHA_512: "SCRAM-SHA-512",
}

_SHARED = ("security.", "sasl.", "ssl.")

PASSWORD_FILE = "password"  # noqa: S105 - a file name


def read_password(kafka: KafkaCluster, directory: Path = Path(names.CREDENTIALS_DIRECTORY)) -> str:
    """The mounted password, or an empty string for a cluster without authentication.

    :raises ConfigurationError: the Secret is not mounted or has no such key.
    """
    if kafka.authentication is None:
        return ""
    try:
        return (directory / PASSWORD_FILE).read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        secret = kafka.authentication
        msg = f"the password of spec.kafka.authentication cannot be read: {error}"
        remedy = f"create the Secret {secret.secret_name} with the key {secret.secret_key} in the job's namespace"
        raise ConfigurationError(msg, remedy=remedy) from error


def cluster_config(kafka: KafkaCluster, *, password: str, client_id: str) -> dict[str, str]:
    """What every client of the job needs."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": client_id}
    if kafka.authentication is not None:
        config |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": _MECHANISMS[kafka.authentication.type],
            "sasl.username": kafka.authentication.username,
            "sasl.password": password,
        }
    return config


def cluster_properties(config: Mapping[str, str]) -> dict[str, str]:
    """Of a client's properties those that say where the cluster is and who we are."""
    return {
        name: value
        for name, value in config.items()
        if name in {"bootstrap.servers", "client.id"} or name.startswith(_SHARED)
    }


def consumer_config(job: Job, *, password: str) -> dict[str, str]:
    """A consumer that is told what to read: no membership, no commits of its own, no silent resets."""
    return {
        **job.spec.source.properties,
        **cluster_config(job.spec.kafka, password=password, client_id=f"{job.namespace}.{job.name}-source"),
        "group.id": job.spec.source.group_id,
        "isolation.level": job.spec.source.isolation_level.value,
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
    }


def group_member_config(job: Job, *, password: str) -> dict[str, str]:
    """The consumer that is the job's member of its group: it joins, heartbeats and commits, and never fetches."""
    options = job.spec.source.group_membership
    refresh = job.spec.source.discovery_interval_seconds
    config = {
        **consumer_config(job, password=password),
        "client.id": f"{job.namespace}.{job.name}-member",
        "partition.assignment.strategy": options.assignor.value,
        "session.timeout.ms": str(options.session_timeout_seconds * 1000),
        "heartbeat.interval.ms": str(options.heartbeat_interval_seconds * 1000),
        "max.poll.interval.ms": str(options.max_poll_interval_seconds * 1000),
        # A leader looks for new partitions as often as the job does.
        "topic.metadata.refresh.interval.ms": str(refresh * 1000 if refresh > 0 else -1),
        "enable.partition.eof": "false",
        "queued.min.messages": "1",
    }
    if options.group_instance_id:
        config["group.instance.id"] = options.group_instance_id
    return config
