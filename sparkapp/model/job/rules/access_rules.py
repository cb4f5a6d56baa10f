"""The rules of ``spec.kafka``, ``spec.sink.kafka`` and both ``schemaRegistry``: who the job is, and whom it trusts."""

from __future__ import annotations

from sparkapp.model.encoding.schema import ObjectRule


def _registry_rules(section: str) -> tuple[ObjectRule, ...]:
    return (
        ObjectRule(
            "!has(self.tls) || self.url.startsWith('https://')",
            f"{section}.schemaRegistry.tls needs a url that begins with https://; without TLS leave it out",
            (f"{section}.schemaRegistry",),
        ),
        ObjectRule(
            "!has(self.authentication) || self.url.startsWith('https://') || (self.authentication.type != 'tls'"
            " && self.authentication.allowInsecure)",
            f"{section}.schemaRegistry.authentication over http:// would show credentials on the network: set an"
            " https:// url, or authentication.allowInsecure: true (never with type: tls)",
            (f"{section}.schemaRegistry",),
        ),
        ObjectRule(
            "has(self.username) == (self.type == 'basic') && has(self.passwordSecret) == (self.type == 'basic')"
            " && has(self.accessToken) == (self.type == 'bearer') && has(self.certificateAndKey) == (self.type"
            " == 'tls')",
            f"{section}.schemaRegistry.authentication takes username and passwordSecret with type: basic,"
            " accessToken with type: bearer, and certificateAndKey with type: tls",
            (f"{section}.schemaRegistry.authentication",),
        ),
    )


def _cluster_rules(section: str) -> tuple[ObjectRule, ...]:
    return (
        ObjectRule(
            "!has(self.authentication) || has(self.tls) || (self.authentication.type != 'tls' &&"
            " self.authentication.allowInsecure)",
            f"{section}.authentication without {section}.tls would show credentials on the network: set {section}.tls,"
            " or authentication.allowInsecure: true (never with type: tls)",
            (section,),
        ),
        ObjectRule(
            "has(self.certificateAndKey) == (self.type == 'tls')",
            f"{section}.authentication.certificateAndKey is needed with type: tls, and only there",
            (f"{section}.authentication",),
        ),
        ObjectRule(
            "has(self.username) == (self.type in ['plain', 'scram-sha-256', 'scram-sha-512']) &&"
            " has(self.passwordSecret) == has(self.username)",
            f"{section}.authentication.username and passwordSecret are needed with types plain, scram-sha-256 and"
            " scram-sha-512, and only there",
            (f"{section}.authentication",),
        ),
        ObjectRule(
            "[has(self.clientSecret), has(self.accessToken), has(self.serviceAccountToken)].filter(x, x).size()"
            " == (self.type == 'oauth' ? 1 : 0)",
            f"{section}.authentication with type: oauth takes exactly one of clientSecret, accessToken and"
            " serviceAccountToken, and no other type does",
            (f"{section}.authentication",),
        ),
        ObjectRule(
            "has(self.tokenEndpointUri) == has(self.clientSecret) && has(self.clientId) =="
            " has(self.clientSecret) && (has(self.clientSecret) || !(has(self.scope) || has(self.audience) ||"
            " has(self.tlsTrustedCertificates)))",
            f"{section}.authentication.tokenEndpointUri and clientId are needed with clientSecret; they, scope,"
            " audience and tlsTrustedCertificates belong to it alone",
            (f"{section}.authentication",),
        ),
        ObjectRule(
            "!has(self.tokenEndpointUri) || self.tokenEndpointUri.startsWith('https://') || self.allowInsecure",
            f"{section}.authentication.tokenEndpointUri without TLS would show the client's secret on the network:"
            " use https://, or set allowInsecure: true",
            (f"{section}.authentication",),
        ),
    )


ACCESS_RULES = (
    *_cluster_rules("kafka"),
    *_cluster_rules("sink.kafka"),
    ObjectRule(
        "has(self.certificate) != has(self.pattern)",
        "a trusted certificate has exactly one of certificate and pattern, for instance certificate: ca.crt",
        (
            "kafka.tls.trustedCertificates[]",
            "kafka.authentication.tlsTrustedCertificates[]",
            "sink.kafka.tls.trustedCertificates[]",
            "sink.kafka.authentication.tlsTrustedCertificates[]",
            "source.schemaRegistry.tls.trustedCertificates[]",
            "sink.schemaRegistry.tls.trustedCertificates[]",
        ),
    ),
    *_registry_rules("source"),
    *_registry_rules("sink"),
)
