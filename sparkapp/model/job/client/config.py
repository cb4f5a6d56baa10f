"""librdkafka configuration shared by source, sink and control plane: where the brokers are and who we are.

Pure: TLS and credentials are the parameter ``security``, as ``security_properties.read_security`` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import Job

_SHARED = ("security.", "sasl.", "ssl.", "enable.ssl.")


class OfClusters(NamedTuple):
    """Properties of a job's clients, by the cluster that they ask; of one cluster both are about the same brokers.

    :ivar source: of readers, and of requests about the group and the topics of the source.
    :ivar sink: of producers, and of requests about transactions and the topics of the sink.
    """

    source: Mapping[str, str]
    sink: Mapping[str, str]


def client_configs(job: Job, security: OfClusters) -> OfClusters:
    """The consumer's configuration, and that of the driver's requests to the cluster of the sink.

    Called by the driver, and by what settles a deleted job.

    :param security: TLS and credentials.
    """
    return OfClusters(consumer_config(job, security=security.source), sink_config(job, security=security.sink))


def sink_config(job: Job, *, security: Mapping[str, str], role: str = "") -> dict[str, str]:
    """What every client of the sink's cluster needs.

    :param role: end of ``client.id``, by which brokers' logs tell clients apart.
    """
    return cluster_config(job.spec.sink_cluster, security=security, client_id=f"{job.namespace}.{job.name}{role}")


def cluster_config(kafka: KafkaCluster, *, security: Mapping[str, str], client_id: str) -> dict[str, str]:
    """What every client of the job needs."""
    return {"bootstrap.servers": kafka.bootstrap_servers, "client.id": client_id, **security}


def cluster_properties(config: Mapping[str, str]) -> dict[str, str]:
    """Of a client's properties those that say where the cluster is and who we are."""
    return {
        name: value
        for name, value in config.items()
        if name in {"bootstrap.servers", "client.id"} or name.startswith(_SHARED)
    }


def consumer_config(job: Job, *, security: Mapping[str, str]) -> dict[str, str]:
    """A consumer that is told what to read: no membership, no commits of its own, no silent resets."""
    return {
        **job.spec.source.properties,
        **cluster_config(job.spec.kafka, security=security, client_id=f"{job.namespace}.{job.name}-source"),
        "group.id": job.spec.source.group_id,
        "isolation.level": job.spec.source.isolation_level.value,
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
    }


def group_member_config(job: Job, *, security: Mapping[str, str]) -> dict[str, str]:
    """The consumer that is the job's member of its group: it joins, heartbeats and commits, and never fetches."""
    options = job.spec.source.group_membership
    refresh = job.spec.source.discovery_interval_seconds
    config = {
        **consumer_config(job, security=security),
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
