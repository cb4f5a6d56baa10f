"""``spec.kafka``, the cluster of source and sink, and ``spec.sink.kafka``, another cluster of the sink."""

from __future__ import annotations

from dataclasses import field as hidden
from dataclasses import replace

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.encoding.schema import HIDDEN, Rule, at, part, text_of
from sparkapp.model.job.access.mounts import SecretFolder, secret_folders
from sparkapp.model.job.access.security import Authentication, Tls, tls_from

SOURCE_CLUSTER, SINK_CLUSTER = "spec.kafka", "spec.sink.kafka"

_ADDRESS = "(([[][0-9A-Fa-f:.]+[]])|[^,:/[:space:]]+):[0-9]+"
_BROKERS = text_of(
    3,
    2048,
    Rule(
        "!self.matches('[[:space:]]')",
        "kafka.bootstrapServers has a blank: write host:port,host:port without blanks",
    ),
    Rule(
        "!self.contains('://')",
        "kafka.bootstrapServers takes no protocol: write host:port in place of SASL_SSL://host:port;"
        " kafka.tls and kafka.authentication choose the protocol",
    ),
    Rule(
        f"self.matches('[[:space:]]') || self.contains('://') || self.matches('^{_ADDRESS}(,{_ADDRESS})*$')",
        "kafka.bootstrapServers takes host:port for each broker, separated by commas, for instance"
        " kafka-0:9092,kafka-1:9092; an IPv6 address is in brackets, as [::1]:9092",
    ),
    Rule(
        "!self.matches(':(0+|0*(6553[6-9]|655[4-9][0-9]|65[6-9][0-9]{2}|6[6-9][0-9]{3}|[7-9][0-9]{4}|[1-9][0-9]{5,}))"
        "(,|$)')",
        "kafka.bootstrapServers has a port that is not from 1 to 65535",
    ),
)


@part
class KafkaCluster:
    """A Kafka cluster, and who the job is there. It must be ``cluster_id``, by Kafka's id; empty for the checkpoint's.

    :param field: its path in the resource, for messages.
    """

    bootstrap_servers: str = at(
        "Addresses of brokers as host:port, separated by commas. An IPv6 address is in brackets.", form=_BROKERS
    )
    cluster_id: str = at(
        "Id of the only Kafka cluster that the job may run on, as kafka-cluster.sh cluster-id prints"
        " it. By default the cluster of the checkpoint. Another id moves the job with its offsets to"
        " that cluster, which must be a mirror that keeps offsets. In sink.kafka another id moves the output"
        " to that cluster.",
        default="",
        form=text_of(0, 128, pattern=r"^[A-Za-z0-9._-]+$"),
    )
    tls: Tls | None = at(
        "TLS to the brokers, whose certificates and host names are always verified. tls: {} trusts"
        " the authorities of the image.",
        default=None,
        reader=tls_from,
    )
    authentication: Authentication | None = at(
        "Proof of identity to the brokers. Passwords, keys and tokens stay in their Secrets, which the pods mount.",
        default=None,
    )
    field: str = hidden(default=SOURCE_CLUSTER, metadata=HIDDEN)

    @property
    def folder_prefix(self) -> str:
        """Beginning of the names of its folders: driver and executors mount the Secrets of both clusters."""
        return "sink-" if self.field == SINK_CLUSTER else ""

    @property
    def folders(self) -> tuple[SecretFolder, ...]:
        """Its Secrets; called by the operator for the pods, and by the commands of people."""
        return secret_folders(self.tls, self.authentication, prefix=self.folder_prefix)

    @property
    def has_own_token(self) -> bool:
        """Whether the brokers get a token of the pods' service account."""
        return self.authentication is not None and self.authentication.service_account_token is not None


def sink_cluster_from(sink: Fields, name: str) -> KafkaCluster | None:
    """The cluster of the sink alone; None where it is the source's."""
    if not sink.has(name):
        return None
    return replace(read_part(KafkaCluster, sink.child(name)), field=SINK_CLUSTER)
