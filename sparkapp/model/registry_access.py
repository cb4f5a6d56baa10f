"""How a schema registry is reached: ``spec.source.schemaRegistry``.

Its secrets are keys of Secrets. The operator mounts them, driver and executors read the files when they ask the
registry; the job's description, Spark's configuration and the environment carry their names only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.fields import Fields

CREDENTIAL_FILE = "credential"
"""The mounted password or token."""
CA_FILE = "ca.crt"
"""The mounted certificates, in PEM, of the authorities that may have signed the registry's."""

_FIELD = "spec.source.schemaRegistry"
_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
_TOKEN = re.compile(r"[\x21-\x7e]+")


class RegistryAuthenticationType(StrEnum):
    BASIC = "basic"
    """A user and a password (or an API key and its secret), with each request."""
    BEARER = "bearer"
    """A token, with each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """One key of a Secret in the job's namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAuthentication:
    """Who asks.

    :param username: with BASIC, and only there.
    :param secret: holds the password or the token.
    """

    type: RegistryAuthenticationType = RegistryAuthenticationType.BASIC
    username: str = ""
    secret: SecretKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """Where the registry is, who asks, and who vouches for it.

    :param url: ``http://host:port``, with or without a path.
    :param authentication: None for a registry that is open to everybody.
    :param authority: certificates to trust in the place of the image's; None trusts those.
    :param directory: where the operator mounts :data:`CREDENTIAL_FILE` and :data:`CA_FILE`.
    """

    url: str
    authentication: RegistryAuthentication | None = None
    authority: SecretKey | None = None
    directory: str = names.SCHEMA_REGISTRY_DIRECTORY

    @property
    def files(self) -> tuple[tuple[SecretKey, str], ...]:
        """What is to be mounted: the key of a Secret, and the file's name in :attr:`directory`."""
        credential = () if self.authentication is None else ((self.authentication.secret, CREDENTIAL_FILE),)
        return (*credential, *(() if self.authority is None else ((self.authority, CA_FILE),)))

    @property
    def authority_file(self) -> Path:
        """PEM file of :attr:`authority`."""
        return Path(self.directory) / CA_FILE


def mounted_credential(access: RegistryAccess) -> str | None:
    """The password or token as it is mounted, read anew for each question: a Secret may have changed meanwhile.

    None for a registry that is open to everybody.

    :raises ConfigurationError: the Secret is not mounted, has no such key, or holds what cannot be sent. The message
        never holds what the Secret does.
    """
    who = access.authentication
    if who is None:
        return None
    try:
        secret = (Path(access.directory) / CREDENTIAL_FILE).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        msg = f"the secret of {_FIELD}.authentication cannot be read: {what}"
        raise ConfigurationError(msg, remedy=put_into(who.secret)) from None
    if who.type is RegistryAuthenticationType.BEARER and not _TOKEN.fullmatch(secret):
        msg = f"the token of {_FIELD}.authentication is empty, or has characters that a header cannot have"
        raise ConfigurationError(msg, remedy=put_into(who.secret))
    return secret


def registry_access_from_resource(fields: Fields) -> RegistryAccess | None:
    """Reads ``source.schemaRegistry`` of a resource; None where there is none.

    :raises ConfigurationError: naming the field and what it takes.
    """
    if fields.empty:
        return None
    tls = fields.child("tls")
    return RegistryAccess(
        url=fields.string("url"),
        authentication=_authentication(fields.child("authentication")),
        authority=None if tls.empty else _secret(tls.child("caFrom")),
    )


def check_registry_access(access: RegistryAccess | None, *, needed: bool) -> None:
    """The rules of the field, which the CRD has as well.

    :param needed: a side is in Avro or Protobuf.
    :raises ConfigurationError: naming the field and what to type instead.
    """
    if needed != (access is not None):
        _refuse(
            "url", "needed with formats avro and protobuf, and only there, for instance http://schema-registry:8081"
        )
    if access is None:
        return
    if not _URL.fullmatch(access.url):
        _refuse("url", f"{access.url!r} must be http://host:port or https://host, without user or password")
    if access.authority is not None and not access.url.startswith("https://"):
        _refuse("tls", "needs a url that begins with https://; without TLS leave it out")
    who = access.authentication
    if who is not None and (who.type is RegistryAuthenticationType.BASIC) != bool(who.username):
        _refuse("authentication", _BY_TYPE)
    if who is not None and ":" in who.username:
        _refuse("authentication.username", "a user of type: basic has no ':' in its name")


_BY_TYPE = "takes username and passwordFrom with type: basic, and tokenFrom with type: bearer"


def _authentication(fields: Fields) -> RegistryAuthentication | None:
    if fields.empty:
        return None
    kind = fields.choice("type", RegistryAuthenticationType, RegistryAuthenticationType.BASIC)
    basic = kind is RegistryAuthenticationType.BASIC
    if not fields.child("tokenFrom" if basic else "passwordFrom").empty:
        _refuse("authentication", _BY_TYPE)
    return RegistryAuthentication(
        type=kind,
        username=fields.string("username") if basic else fields.string("username", ""),
        secret=_secret(fields.child("passwordFrom" if basic else "tokenFrom")),
    )


def _secret(fields: Fields) -> SecretKey:
    reference = fields.child("secretKeyRef")
    return SecretKey(name=reference.string("name"), key=reference.string("key"))


def put_into(secret: SecretKey) -> str:
    """For remedies: where what is missing belongs."""
    return f"put it into the Secret {secret.name} under the key {secret.key}, in the job's namespace"


def _refuse(field: str, message: str) -> None:
    msg = f"{_FIELD}.{field}: {message}"
    raise ConfigurationError(msg)
