"""Errors of the schema registry and of its schemas."""

from __future__ import annotations

from sparkapp.model.errors.base import KafkaSparkJobError


class SchemaError(KafkaSparkJobError):
    """The schema registry or a schema does not allow the job to work; the job restarts with backoff."""

    reason = "SchemaError"


class SchemaRegistryUnreachable(SchemaError):
    """The registry did not answer in time, or answered with a server error."""

    reason = "SchemaRegistryUnreachable"
    default_remedy = "check spec.source.schemaRegistry.url, and that the pods can reach the registry"


class SchemaRegistryAccessDenied(SchemaError):
    """The registry refused the user, or does not let it read (HTTP 401 and 403); the Secret may be corrected later."""

    reason = "SchemaRegistryAccessDenied"
    default_remedy = (
        "check the username and the Secret in spec.source.schemaRegistry.authentication;"
        " grant the user READ on the topics' subjects, and WRITE for sink.format.autoRegister"
    )


class SchemaRegistryUntrusted(SchemaError):
    """The registry's certificate has an authority that the job does not trust, or is for another host."""

    reason = "SchemaRegistryUntrusted"
    default_remedy = (
        "set spec.source.schemaRegistry.tls.trustedCertificates to the Secret with the certificate of the registry's"
        " authority,"
        " and use a host in spec.source.schemaRegistry.url that the registry's certificate names"
    )


class SchemaNotFound(SchemaError):
    """The registry has no schema for the topic."""

    reason = "SchemaNotFound"
    default_remedy = "register the schema, or set spec.source.format.valueSchema (or keySchema)"


class SchemaUnusable(SchemaError):
    """A schema that is not Avro, does not parse, or has a type without a counterpart in a DataFrame."""

    reason = "SchemaUnusable"
    fatal = True
    default_remedy = "set spec.source.format.valueSchema (or keySchema) to a reader schema without the field"


class SchemaMismatch(SchemaError):
    """The transform's columns do not fit the schema of the sink, or the subject refuses a schema that would be new.

    The message names column, type and subject. No record is written before.
    """

    reason = "SchemaMismatch"
    fatal = True
    default_remedy = (
        "set spec.sink.format.valueSchema (or keySchema) to a schema that the subject's compatibility allows;"
        " or set another compatibility of the subject at the registry"
    )
