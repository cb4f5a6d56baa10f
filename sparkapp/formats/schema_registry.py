"""Schemas by id and by subject, over confluent_kafka's client of the registry.

The client implements HTTP, TLS and the registry's interface. This module adds retries while a registry restarts, the
meaning of error responses, and secrets that change while a job runs.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkapp.model.errors import (
    CredentialsUnusable,
    SchemaError,
    SchemaMismatch,
    SchemaNotFound,
    SchemaRegistryAccessDenied,
    SchemaRegistryUnreachable,
    SchemaRegistryUntrusted,
    SchemaUnusable,
)
from sparkapp.model.job.access.mounts import CERTIFICATE_FILE, KEY_FILE, TRUSTED
from sparkapp.model.job.access.registry_access import (
    SOURCE_REGISTRY,
    RegistryAccess,
    RegistryAuthenticationType,
    mounted_credential,
)
from sparkapp.model.job.client.security_properties import trusted_files

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema as RegisteredVersion
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError

    _Question = Callable[[SchemaRegistryClient, str | None], "RegisteredSchema"]
    """Asks for a schema in the form of the second argument; None for its text."""

COMPILES = (
    "register the schema as its compiled descriptor in base64, or use a registry that supports format=serialized for"
    " Protobuf"
)
"""The remedy of a schema that a registry does not compile."""
_PAUSE = 0.5
_SESSION_SECONDS = 10.0
"""A session uses a client no longer, because its secrets may be replaced."""
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
_SHOWN = 200
_DENIED = frozenset({http.client.UNAUTHORIZED, http.client.FORBIDDEN})
_NOT_FOUND = (40401, 40402, 40403)
"""The registry's codes for an unknown subject, version and schema id."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A named type that a schema imports from another subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its kind and references, as the registry returns it.

    :param id: which records carry.
    """

    text: str
    kind: str
    references: tuple[Reference, ...]
    id: int


class SchemaRegistry:
    """Requests schemas; outside of :meth:`session` nothing stays open, so it can be used on both sides of a fork.

    Each request or session opens a client. So secrets and certificates are as new as their mount, and only this
    process's memory has them. The client's own caches, which would outlive a version, stay empty.

    :param timeout: seconds until a request fails; a registry that restarts is retried meanwhile.
    """

    def __init__(self, access: RegistryAccess, *, timeout: float = 15.0) -> None:
        self._access = access
        self._url = access.url.rstrip("/")
        self._timeout = timeout
        self._session: ExitStack | None = None
        self._shared: tuple[float, SchemaRegistryClient] | None = None

    @contextmanager
    def session(self) -> Iterator[None]:
        """Requests inside of it share a client and its connection. The first request opens them.

        To open a client takes 50 ms of CPU, in which it reads the image's certificates. Called by the decoders for each
        batch of records, from one thread.
        """
        with ExitStack() as stack:
            self._session = stack
            try:
                yield
            finally:
                self._session = self._shared = None

    def by_id(self, schema_id: int, *, compiled: bool = False) -> RegisteredSchema:
        """The schema of an id in a record.

        :param compiled: a Protobuf schema as its descriptor, in base64, instead of its text.
        :raises SchemaNotFound: no such id.
        :raises SchemaRegistryUnreachable: no answer in time.
        :raises SchemaRegistryAccessDenied: and SchemaRegistryUntrusted, at once: a retry would not help.
        :raises CredentialsUnusable: the credentials or certificates are not mounted.
        """
        return self._ask(
            lambda client, form: _schema_of(client.get_schema(schema_id, fmt=form), schema_id),
            f"schema {schema_id}",
            compiled=compiled,
        )

    def latest(self, subject: str, *, compiled: bool = False) -> RegisteredSchema:
        """The newest version of a subject; errors as in :meth:`by_id`."""
        return self._ask(
            lambda client, form: _version_of(client.get_latest_version(subject, fmt=form)),
            f"subject {subject!r}",
            compiled=compiled,
        )

    def version(self, reference: Reference, *, compiled: bool = False) -> RegisteredSchema:
        """The schema of a reference; errors as in :meth:`by_id`."""
        return self._ask(
            lambda client, form: _version_of(client.get_version(reference.subject, reference.version, fmt=form)),
            f"subject {reference.subject!r}, version {reference.version}",
            compiled=compiled,
        )

    def registered(self, subject: str, text: str, kind: str, *, register: bool) -> RegisteredSchema:
        """The version of a subject that has this schema.

        :param register: adds a version where the subject has none with this schema.
        :raises SchemaNotFound: without ``register``: no version has it. Other errors as in :meth:`by_id`.
        :raises SchemaMismatch: with ``register``: the subject's compatibility refuses the schema.
        """

        def question(client: SchemaRegistryClient, _form: str | None) -> RegisteredSchema:
            from confluent_kafka.schema_registry import Schema

            ask = client.register_schema_full_response if register else client.lookup_schema
            return _schema_of(Schema(text, kind), ask(subject, Schema(text, kind)).schema_id)

        return self._ask(question, f"schema of {kind} under subject {subject!r} with the given text")

    def _ask(self, question: _Question, what: str, *, compiled: bool = False) -> RegisteredSchema:
        from confluent_kafka.schema_registry import SchemaRegistryError
        from httpx2 import HTTPError, InvalidURL, TransportError

        end = time.monotonic() + self._timeout
        with self._opened() as client:
            while True:
                try:
                    return _compiled(question, client) if compiled else question(client, None)
                except SchemaRegistryError as error:
                    status = error.http_status_code
                    passing = status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS
                    if not passing or time.monotonic() + _PAUSE >= end:
                        # Without its cause, which has the whole response, perhaps a proxy's page.
                        raise self._meaning(error, what) from None
                except (HTTPError, InvalidURL) as error:
                    self._check_trust(error)
                    if not isinstance(error, TransportError) or time.monotonic() + _PAUSE >= end:
                        msg = f"the schema registry {self._url} did not return {what}: {str(error) or repr(error)}"
                        raise self._error(SchemaRegistryUnreachable, msg) from error
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    # The client does not validate a response before it parses it.
                    msg = f"the schema registry {self._url} returned no valid schema for {what}: {str(error)[:_SHOWN]}"
                    raise self._error(SchemaRegistryUnreachable, msg) from error
                time.sleep(_PAUSE)

    @contextmanager
    def _opened(self) -> Iterator[SchemaRegistryClient]:
        """The session's client, for some seconds, or else a client for a single request."""
        if self._session is None:
            with self._client() as client:
                yield client
            return
        if self._shared is None or time.monotonic() >= self._shared[0]:
            client = self._client()
            self._shared = time.monotonic() + _SESSION_SECONDS, client
            self._session.push(client)
        yield self._shared[1]

    def _client(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        configuration: dict[str, Any] = {
            # A single address: the client would treat text after a comma as another registry.
            "url": self._url.replace(",", "%2C"),
            "timeout": self._timeout / 3,
            # The client would retry after every failure, certificates too, and limit retries by number, not by time.
            "max.retries": 0,
            **self._credentials(),
        }
        try:
            with self._trusted() as authorities:
                return SchemaRegistryClient({**configuration, "ssl.ca.location": authorities})
        except OSError as error:
            if self._access.tls is None and self._access.authentication is None:
                raise
            msg = f"the certificates or the key of {self._access.field} cannot be used: {error}"
            raise CredentialsUnusable(msg, remedy="put them into the Secrets that the field names, in PEM") from error

    def _credentials(self) -> dict[str, str]:
        who, secret = self._access.authentication, mounted_credential(self._access)
        if who is not None and who.type is RegistryAuthenticationType.TLS:
            folder = self._access.user_folder
            return {
                "ssl.certificate.location": str(folder / CERTIFICATE_FILE), "ssl.key.location": str(folder / KEY_FILE)
            }  # fmt: skip
        if who is None or secret is None:
            return {}
        if who.type is RegistryAuthenticationType.BASIC:
            return {"basic.auth.user.info": f"{who.username}:{secret}"}
        return {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": secret,
            # Selects a registry of Confluent Cloud. The client requires it; other registries ignore the header.
            "bearer.auth.logical.cluster": "",
        }

    @contextmanager
    def _trusted(self) -> Iterator[str | None]:
        """File or folder of certificates; the client's own default is a package's certificates, not the image's."""
        tls = self._access.tls
        if tls is None or not tls.trusted_certificates:
            image = ssl.get_default_verify_paths()
            yield image.cafile or image.capath
            return
        where = f"{self._access.field}.tls.trustedCertificates"
        files = trusted_files(Path(self._access.directory), TRUSTED, tls.trusted_certificates, where)
        with tempfile.NamedTemporaryFile(suffix=".pem") as joined:
            joined.write(b"\n".join(file.read_bytes() for file in files))
            joined.flush()
            yield joined.name

    def _meaning(self, error: SchemaRegistryError, what: str) -> SchemaError:
        status, said = error.http_status_code, str(error.error_message or "")[:_SHOWN]
        # A 404 with such a code means that the schema does not exist, so the record is invalid. Any other 404 concerns
        # the path, perhaps a proxy's: a job must not skip records because of it.
        if status == http.client.NOT_FOUND and error.error_code in _NOT_FOUND:
            return SchemaNotFound(f"the schema registry {self._url} has no {what}: {said}")
        if status == http.client.CONFLICT:
            return SchemaMismatch(f"the schema registry {self._url} refuses the {what}: {said}")
        if status == http.client.UNPROCESSABLE_ENTITY:
            msg = f"the schema registry {self._url} did not return {what} in this form: {said}"
            return SchemaUnusable(msg, remedy=COMPILES)
        if status in _DENIED:
            msg = f"the schema registry {self._url} denies {what}: HTTP {status} {said}"
            return self._error(SchemaRegistryAccessDenied, msg)
        if http.client.MULTIPLE_CHOICES <= status < http.client.BAD_REQUEST:
            said = "(redirects are not followed: set url to the registry's own address)"
        msg = f"the schema registry {self._url} did not return {what}: HTTP {status} {said}"
        return self._error(SchemaRegistryUnreachable, msg)

    def _error(self, kind: type[SchemaError], message: str) -> SchemaError:
        """The error with the remedy of this registry's field."""
        return kind(message, remedy=kind.default_remedy.replace(SOURCE_REGISTRY, self._access.field))

    def _check_trust(self, error: Exception) -> None:
        """:raises SchemaRegistryUntrusted: the registry's certificate caused the error."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            msg = f"the certificate of the schema registry {self._url} is not trusted: {cause}"
            raise self._error(SchemaRegistryUntrusted, msg) from error


def _compiled(question: _Question, client: SchemaRegistryClient) -> RegisteredSchema:
    """The descriptor of a Protobuf schema.

    Serializers for Python and .NET register descriptors. Apicurio Registry returns these as the schema's text, and does
    not compile them. Any other text the registry has to compile.
    """
    found = question(client, None)
    if found.kind != PROTOBUF or _is_base64(found.text):
        return found
    client.clear_caches()  # type: ignore[no-untyped-call]  # else it would answer with the text that it has
    return question(client, "serialized")


def _is_base64(text: str) -> bool:
    """Whether a Protobuf schema is a descriptor, and not the text of a proto file, which has blanks."""
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _version_of(found: RegisteredVersion) -> RegisteredSchema:
    return _schema_of(found.schema, found.schema_id)


def _schema_of(found: Schema, schema_id: int | None) -> RegisteredSchema:
    """:raises ValueError: the response has no schema or id; the client accepts any JSON object."""
    if found.schema_str is None or schema_id is None:
        msg = "it has no text" if schema_id is not None else "it has no id"
        raise ValueError(msg)
    return RegisteredSchema(
        text=found.schema_str,
        kind=found.schema_type or AVRO,
        references=tuple(_reference_of(reference) for reference in found.references or ()),
        id=schema_id,
    )


def _reference_of(found: SchemaReference) -> Reference:
    """:raises ValueError: the reference is incomplete."""
    if found.name is None or found.subject is None or found.version is None:
        msg = f"it has a reference without a name, a subject or a version: {found}"
        raise ValueError(msg)
    return Reference(found.name, found.subject, int(found.version))
