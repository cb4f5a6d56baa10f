"""Client properties that are refused in ``source.properties`` and ``sink.properties``, and their replacements."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.java_properties import instead_of_java_property
from sparkapp.model.job.client.secret_names import carries_secret, names_secret
from sparkapp.model.job.group_membership import FIELD_OF_PROPERTY

OWN_PROPERTIES = (
    "bootstrap.servers", "group.id", "client.id", "transactional.id", "transaction.timeout.ms", "enable.idempotence",
    "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level", "acks",
    "enable.partition.eof", "max.in.flight.requests.per.connection", "plugin.library.paths",
    "delivery.report.only.error",  # every record's report is counted before a transaction may be committed
)  # fmt: skip
ALLOWED_TLS = ("ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list")
"""Properties of TLS that a job may set: they choose among what the libraries offer, and cannot switch off a check."""
_TLS = ("ssl.", "https.", "enable.ssl.")
DENIED_PROPERTIES = {*OWN_PROPERTIES, *FIELD_OF_PROPERTY}
"""Properties that are refused by name; :func:`refused_property` also refuses patterns of names."""


def refused_property(name: str) -> str | None:
    """The replacement of a refused property; None for any other name.

    Refused are properties that the job sets itself, that would carry a secret or weaken TLS, or that only Java's
    clients know. The CEL rules (``rules.property_rules``) are made of the same names, except for Java's. The driver
    finds other names that librdkafka does not know (``dataplane.client_check``).
    """
    field = FIELD_OF_PROPERTY.get(name)
    if field is not None:
        return f"{name} cannot be set here: use source.groupMembership.{field}"
    if names_secret(name) or name.lower() == "security.protocol" or name.lower().startswith("sasl."):
        return f"{name} cannot be set here: credentials come from a Secret, by spec.kafka.authentication"
    if name in DENIED_PROPERTIES:
        return f"{name} cannot be set here: use the resource's own field"
    if name.lower().startswith(_TLS) and name not in ALLOWED_TLS:
        return f"{name} cannot be set here: use spec.kafka.tls; of TLS only {', '.join(ALLOWED_TLS)} may be set"
    instead = instead_of_java_property(name)
    return None if instead is None else f"{name} is a property of Java's client, not of librdkafka: {instead}"


def check_properties(where: str, properties: Mapping[str, str]) -> None:
    """Called by the rules between a job's fields, for source and sink.

    :raises ConfigurationError: naming the property and its replacement.
    """
    for name, value in properties.items():
        instead = refused_property(name)
        if instead is None and carries_secret(value):
            instead = f"{name} cannot be set here: its value looks like a credential, which comes from a Secret, by"
            instead += " spec.kafka.authentication"
        if instead is not None:
            msg = f"{where}: {instead}"
            raise ConfigurationError(msg)
