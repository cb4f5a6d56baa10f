"""A client of Confluent's schema registry, as far as a reader needs one: a schema by its id, the latest of a subject.

Two GET requests with the standard library. The client that comes with confluent_kafka would bring an HTTP stack, an
OAuth library and their cryptography into every Python worker.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from sparkapp.model.errors import (
    ConfigurationError,
    SchemaNotFound,
    SchemaRegistryAccessDenied,
    SchemaRegistryUnreachable,
    SchemaRegistryUntrusted,
    SchemaUnusable,
)
from sparkapp.model.registry_access import RegistryAccess, authorization, put_into

_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_MAX_ANSWER = 8 << 20
_PAUSE = 0.5
AVRO, PROTOBUF = "AVRO", "PROTOBUF"
_SHOWN = 200
_DENIED = frozenset({http.client.UNAUTHORIZED, http.client.FORBIDDEN})
_NOT_FOUND = frozenset({40401, 40402, 40403})
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

    Secrets and certificates are read for each question, which is one a schema: they are as new as their mount, and
    nothing but this process's memory has them.

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
        return self._get(f"/schemas/ids/{schema_id}", f"schema {schema_id}", compiled)

    def latest(self, subject: str, *, compiled: bool = False) -> RegisteredSchema:
        """The newest version of a subject; errors as in :meth:`by_id`."""
        return self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", f"subject {subject!r}", compiled)

    def version(self, reference: Reference, *, compiled: bool = False) -> RegisteredSchema:
        """What a reference points to; errors as in :meth:`by_id`."""
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        return self._get(path, f"subject {reference.subject!r}, version {reference.version}", compiled)

    def _get(self, path: str, what: str, compiled: bool) -> RegisteredSchema:
        if compiled:
            path += "?format=serialized"
        headers, context = self._headers(), self._context()
        end = time.monotonic() + self._timeout
        while True:
            try:
                return _schema_of(self._ask(path, headers, context), what)
            except HTTPError as error:
                said = error.read(_SHOWN).decode(errors="replace")
                if error.code == http.client.NOT_FOUND and _registry_says_no(said):
                    msg = f"the schema registry {self._url} has no {what}: {said}"
                    raise SchemaNotFound(msg) from error
                if error.code == http.client.UNPROCESSABLE_ENTITY:
                    msg = f"the schema registry {self._url} does not give {what} in this form: {said}"
                    raise SchemaUnusable(msg) from error
                if error.code in _DENIED:
                    msg = f"the schema registry {self._url} denies {what}: HTTP {error.code} {said}"
                    raise SchemaRegistryAccessDenied(msg) from error
                failure = f"HTTP {error.code} {said}"
                passing = error.code >= http.client.INTERNAL_SERVER_ERROR or error.code == http.client.TOO_MANY_REQUESTS
            except (OSError, http.client.HTTPException) as error:
                untrusted = error.reason if isinstance(error, URLError) else error
                if isinstance(untrusted, ssl.SSLCertVerificationError):
                    msg = f"the certificate of the schema registry {self._url} is not trusted: {untrusted}"
                    raise SchemaRegistryUntrusted(msg) from error
                failure, passing = str(error) or repr(error), True
            if not passing or time.monotonic() + _PAUSE >= end:
                msg = f"the schema registry {self._url} does not give {what}: {failure}"
                raise SchemaRegistryUnreachable(msg)
            time.sleep(_PAUSE)

    def _ask(self, path: str, headers: Mapping[str, str], context: ssl.SSLContext | None) -> bytes:
        # The scheme was checked with the resource.
        request = Request(self._url + path, headers={"Accept": _ACCEPT})  # noqa: S310
        for name, value in headers.items():
            # Where the registry sends us elsewhere, the credentials do not follow.
            request.add_unredirected_header(name, value)
        with urlopen(request, timeout=self._timeout / 3, context=context) as answer:  # noqa: S310
            return bytes(answer.read(_MAX_ANSWER))

    def _headers(self) -> dict[str, str]:
        value = authorization(self._access)
        return {} if value is None else {"Authorization": value}

    def _context(self) -> ssl.SSLContext | None:
        authority = self._access.authority
        if authority is None:
            return None
        try:
            return ssl.create_default_context(cafile=str(self._access.authority_file))
        except OSError as error:
            msg = f"the certificates of spec.source.schemaRegistry.tls.caFrom cannot be read: {error}"
            remedy = f"in PEM, {put_into(authority)}"
            raise ConfigurationError(msg, remedy=remedy) from error


def _registry_says_no(said: str) -> bool:
    """Whether a 404 is the registry's own word about a schema; one about the path may be any proxy's.

    A record is judged by the first, and a job must not skip records because of the second.
    """
    try:
        return json.loads(said)["error_code"] in _NOT_FOUND
    except (ValueError, KeyError, TypeError):
        return False


def _schema_of(answer: bytes, what: str) -> RegisteredSchema:
    try:
        body: Mapping[str, Any] = json.loads(answer)
        return RegisteredSchema(
            text=str(body["schema"]),
            kind=str(body.get("schemaType") or AVRO),
            references=tuple(
                Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
                for one in body.get("references") or ()
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"what the schema registry answers for {what} is no schema: {answer[:_SHOWN]!r}"
        raise SchemaRegistryUnreachable(msg) from error
