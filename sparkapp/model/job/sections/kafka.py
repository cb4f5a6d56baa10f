"""``spec.kafka``: the cluster of source and sink."""

from __future__ import annotations

from sparkapp.model.encoding.schema import Rule, at, part, text_of
from sparkapp.model.job.access.security import Authentication, Tls, tls_from

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
    """The cluster of source and sink. It must be ``cluster_id``, by Kafka's id; empty for the checkpoint's."""

    bootstrap_servers: str = at(
        "Addresses of brokers as host:port, separated by commas. An IPv6 address is in brackets.", form=_BROKERS
    )
    cluster_id: str = at(
        "Id of the only Kafka cluster that the job may run on, as kafka-cluster.sh cluster-id prints"
        " it. By default the cluster of the checkpoint. Another id moves the job with its offsets to"
        " that cluster, which must be a mirror that keeps offsets.",
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
