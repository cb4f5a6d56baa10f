"""A schema by its id, and the latest of a subject, by confluent_kafka's client of the registry.

The client speaks HTTP, TLS and the registry's interface. Here is what it leaves to its callers: how long a registry
that is restarting is asked, which of its answers are whose fault, and secrets that change while a job runs.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkapp.model.errors import (
    ConfigurationError,
    SchemaError,
    SchemaNotFound,
    SchemaRegistryAccessDenied,
    SchemaRegistryUnreachable,
    SchemaRegistryUntrusted,
    SchemaUnusable,
)
from sparkapp.model.registry_access import (
    RegistryAccess,
    RegistryAuthenticationType,
    mounted_credential,
    put_into,
)

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError

_PAUSE = 0.5
AVRO, PROTOBUF = "AVRO", "PROTOBUF"
_SHOWN = 200
_DENIED = frozenset({http.client.UNAUTHORIZED, http.client.FORBIDDEN})
_NOT_FOUND = (40401, 40402, 40403)
"""The registry's codes for a subject, a version and a schema id that it does not have."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A named type that a schema takes from another subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    text: str
    kind: str
    references: tuple[Reference, ...]


class SchemaRegistry:
    """Asks the registry; keeps nothing open between two questions, so it may be used on both sides of a fork.

    There is a client a question, which is one a schema. So secrets and certificates are as new as their mount, nothing
    but this process's memory has them, and the client's own caches, which would outlive a version, hold nothing.

    :param timeout: seconds until a question is given up; a registry that is restarting is asked again meanwhile.
    """

    def __init__(self, access: RegistryAccess, *, timeout: float = 15.0) -> None:
        self._access = access
        self._url = access.url.rstrip("/")
        self._timeout = timeout

    def by_id(self, schema_id: int, *, compiled: bool = False) -> RegisteredSchema:
        """A schema that a record names.

        :param compiled: a Protobuf schema as its descriptor, in base64, instead of its text.
        :raises SchemaNotFound: no such id. :raises SchemaRegistryUnreachable: no answer in time.
        :raises SchemaRegistryAccessDenied: and SchemaRegistryUntrusted, at once: asking again would not help.
        :raises ConfigurationError: the credentials or certificates are not where they should be mounted.
        """
        return self._ask(lambda client: client.get_schema(schema_id, fmt=_form(compiled)), f"schema {schema_id}")

    def latest(self, subject: str, *, compiled: bool = False) -> RegisteredSchema:
        """The newest version of a subject; errors as in :meth:`by_id`."""
        return self._ask(
            lambda client: client.get_latest_version(subject, fmt=_form(compiled)).schema, f"subject {subject!r}"
        )

    def version(self, reference: Reference, *, compiled: bool = False) -> RegisteredSchema:
        """What a reference points to; errors as in :meth:`by_id`."""
        return self._ask(
            lambda client: client.get_version(reference.subject, reference.version, fmt=_form(compiled)).schema,
            f"subject {reference.subject!r}, version {reference.version}",
        )

    def _ask(self, question: Callable[[SchemaRegistryClient], Schema], what: str) -> RegisteredSchema:
        from confluent_kafka.schema_registry import SchemaRegistryError
        from httpx2 import HTTPError, InvalidURL, TransportError

        end = time.monotonic() + self._timeout
        with self._client() as client:
            while True:
                try:
                    return _schema_of(question(client))
                except SchemaRegistryError as error:
                    status = error.http_status_code
                    passing = status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS
                    if not passing or time.monotonic() + _PAUSE >= end:
                        # Without its cause, which holds the whole answer: some proxy's page, perhaps.
                        raise self._meaning(error, what) from None
                except (HTTPError, InvalidURL) as error:
                    self._check_trust(error)
                    if not isinstance(error, TransportError) or time.monotonic() + _PAUSE >= end:
                        msg = f"the schema registry {self._url} does not give {what}: {str(error) or repr(error)}"
                        raise SchemaRegistryUnreachable(msg) from error
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    # The client checks nothing of an answer before it takes it apart.
                    msg = f"what the schema registry {self._url} answers for {what} is no schema: {str(error)[:_SHOWN]}"
                    raise SchemaRegistryUnreachable(msg) from error
                time.sleep(_PAUSE)

    def _client(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        configuration: dict[str, Any] = {
            # One address: the client would take what follows a comma for another registry.
            "url": self._url.replace(",", "%2C"),
            "timeout": self._timeout / 3,
            # It would ask again whatever the failure is, certificates too, and count the times instead of seconds.
            "max.retries": 0,
            "ssl.ca.location": self._trusted(),
            **self._credentials(),
        }
        try:
            return SchemaRegistryClient(configuration)
        except OSError as error:
            if self._access.authority is None:
                raise
            msg = f"the certificates of spec.source.schemaRegistry.tls.caFrom cannot be read: {error}"
            remedy = f"in PEM, {put_into(self._access.authority)}"
            raise ConfigurationError(msg, remedy=remedy) from error

    def _credentials(self) -> dict[str, str]:
        who, secret = self._access.authentication, mounted_credential(self._access)
        if who is None or secret is None:
            return {}
        if who.type is RegistryAuthenticationType.BASIC:
            return {"basic.auth.user.info": f"{who.username}:{secret}"}
        return {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": secret,
            # Which of Confluent Cloud's registries; the client insists on it, others do not read the header.
            "bearer.auth.logical.cluster": "",
        }

    def _trusted(self) -> str | None:
        """File or folder of certificates: the client's own default is not the image's, but a package's."""
        if self._access.authority is not None:
            return str(self._access.authority_file)
        image = ssl.get_default_verify_paths()
        return image.cafile or image.capath

    def _meaning(self, error: SchemaRegistryError, what: str) -> SchemaError:
        status, said = error.http_status_code, str(error.error_message or "")[:_SHOWN]
        # A 404 without one of these codes is about the path, and may be any proxy's. A record is judged by the first,
        # and a job must not skip records because of the second.
        if status == http.client.NOT_FOUND and error.error_code in _NOT_FOUND:
            return SchemaNotFound(f"the schema registry {self._url} has no {what}: {said}")
        if status == http.client.UNPROCESSABLE_ENTITY:
            return SchemaUnusable(f"the schema registry {self._url} does not give {what} in this form: {said}")
        if status in _DENIED:
            return SchemaRegistryAccessDenied(f"the schema registry {self._url} denies {what}: HTTP {status} {said}")
        if http.client.MULTIPLE_CHOICES <= status < http.client.BAD_REQUEST:
            said = "(a redirect, which is not followed: url has to be the registry's own address)"
        return SchemaRegistryUnreachable(f"the schema registry {self._url} does not give {what}: HTTP {status} {said}")

    def _check_trust(self, error: Exception) -> None:
        """:raises SchemaRegistryUntrusted: the error is about the registry's certificate."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            msg = f"the certificate of the schema registry {self._url} is not trusted: {cause}"
            raise SchemaRegistryUntrusted(msg) from error


def _form(compiled: bool) -> str | None:
    return "serialized" if compiled else None


def _schema_of(found: Schema) -> RegisteredSchema:
    """:raises ValueError: the client takes any JSON object for a schema, and leaves empty what it lacks."""
    if found.schema_str is None:
        msg = "it has no text"
        raise ValueError(msg)
    return RegisteredSchema(
        text=found.schema_str,
        kind=found.schema_type or AVRO,
        references=tuple(_reference_of(one) for one in found.references or ()),
    )


def _reference_of(found: SchemaReference) -> Reference:
    """:raises ValueError: it refers to nothing."""
    if found.name is None or found.subject is None or found.version is None:
        msg = f"it has a reference without a name, a subject or a version: {found}"
        raise ValueError(msg)
    return Reference(found.name, found.subject, int(found.version))
