"""The client properties and Spark settings that a job may not set, as rules of the API server."""

from __future__ import annotations

from collections.abc import Iterable

from sparkapp.model.encoding.schema import ObjectRule
from sparkapp.model.job.client.properties import ALLOWED_TLS, OWN_PROPERTIES
from sparkapp.model.job.client.secret_names import REFERENCE_NAME, SECRET_NAME
from sparkapp.model.job.client.spark_options import FIELD_OF_OPTION
from sparkapp.model.job.group_membership import FIELD_OF_PROPERTY

_BOTH = ("source.properties", "sink.properties")


def listed(names: Iterable[str], separator: str = ",") -> str:
    """A list of names as CEL writes it."""
    return f"[{separator.join(repr(name) for name in names)}]"


def is_secret(name: str) -> str:
    """:func:`sparkapp.model.job.client.secret_names.names_secret` in CEL, of an expression for a name."""
    return f"{name}.matches('{SECRET_NAME.pattern}') && !{name}.matches('{REFERENCE_NAME.pattern}')"


PROPERTY_RULES = (
    ObjectRule(
        f"!self.exists(k, k in {listed(OWN_PROPERTIES)})",
        "this client property belongs to the job: set it through the resource's own field (kafka, source, sink,"
        " checkpoint), or leave it out",
        _BOTH,
    ),
    ObjectRule(
        f"!self.exists(k, k in {listed(FIELD_OF_PROPERTY)})",
        "this client property belongs to source.groupMembership: set groupInstanceId, assignor, sessionTimeoutSeconds,"
        " heartbeatIntervalSeconds or maxPollIntervalSeconds there",
        _BOTH,
    ),
    ObjectRule(
        f"!self.exists(k, k.startsWith('kafka.') || k in {listed(FIELD_OF_OPTION)})",
        "this is an option of Spark's own Kafka source: use the fields of source, or parallelism; a client property is"
        " written without the prefix 'kafka.'",
        ("source.properties",),
    ),
    ObjectRule(
        f"!self.exists(k, k.matches('(?i)^(sasl[.]|security[.]protocol$)') || ({is_secret('k')}))",
        "credentials do not belong here: use kafka.authentication with a Secret",
        _BOTH,
    ),
    ObjectRule(
        f"!self.exists(k, k.matches('(?i)^(ssl|https|enable[.]ssl)[.]') && !(k in {listed(ALLOWED_TLS, ', ')}))",
        "TLS does not belong here: use kafka.tls; only ssl.cipher.suites, ssl.curves.list and ssl.sigalgs.list may be"
        " set",
        _BOTH,
    ),
)
