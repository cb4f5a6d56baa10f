"""Access to a schema registry: ``spec.source.schemaRegistry``.

Its credentials are keys of Secrets. The operator mounts them, and driver and executors read the files for each request.
The job's description, Spark's configuration and the environment hold the names of files and Secrets only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.record_format import Format

CREDENTIAL_FILE = "credential"
"""The mounted password or token."""
CA_FILE = "ca.crt"
"""The mounted certificates, in PEM, of the authorities that sign the registry's certificate."""

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
    """The credentials of the job at the registry.

    :param username: with BASIC, and only there.
    :param secret: holds the password or the token.
    """

    type: RegistryAuthenticationType = RegistryAuthenticationType.BASIC
    username: str = ""
    secret: SecretKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """The registry's address, the job's credentials, and the authorities that the job trusts.

    :param url: ``http://host:port``, with or without a path.
    :param authentication: None for a registry without authentication.
    :param authority: certificates to trust instead of the image's; None trusts the image's.
    :param directory: where the operator mounts :data:`CREDENTIAL_FILE` and :data:`CA_FILE`.
    """

    url: str
    authentication: RegistryAuthentication | None = None
    authority: SecretKey | None = None
    directory: str = names.SCHEMA_REGISTRY_DIRECTORY

    @property
    def files(self) -> tuple[tuple[SecretKey, str], ...]:
        """The mounts: the key of a Secret, and the file's name in :attr:`directory`."""
        credential = () if self.authentication is None else ((self.authentication.secret, CREDENTIAL_FILE),)
        return (*credential, *(() if self.authority is None else ((self.authority, CA_FILE),)))

    @property
    def authority_file(self) -> Path:
        """PEM file of :attr:`authority`."""
        return Path(self.directory) / CA_FILE


def mounted_credential(access: RegistryAccess) -> str | None:
    """The mounted password or token, read for each request because a Secret may change; None without authentication.

    :raises ConfigurationError: the Secret is not mounted, has no such key, or its value cannot be sent. The message
        never holds the value.
    """
    authentication = access.authentication
    if authentication is None:
        return None
    try:
        secret = (Path(access.directory) / CREDENTIAL_FILE).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        msg = f"the secret of {_FIELD}.authentication cannot be read: {cause}"
        raise ConfigurationError(msg, remedy=put_into(authentication.secret)) from None
    if authentication.type is RegistryAuthenticationType.BEARER and not _TOKEN.fullmatch(secret):
        msg = f"the token of {_FIELD}.authentication is empty, or has characters that a header cannot have"
        raise ConfigurationError(msg, remedy=put_into(authentication.secret))
    return secret


def registry_access_from(source: Fields, name: str) -> RegistryAccess | None:
    """Reads ``source.schemaRegistry`` of a resource; None where there is none. Called by ``encoding.resource``.

    :raises ConfigurationError: naming the field and what it takes.
    """
    fields = source.child(name)
    if fields.empty:
        return None
    tls = fields.child("tls")
    return RegistryAccess(
        url=fields.string("url"),
        authentication=_authentication(fields.child("authentication")),
        authority=None if tls.empty else _secret(tls.child("caFrom")),
    )


def check_registry_access(access: RegistryAccess | None, *, needed: bool) -> None:
    """The rules of the field, which the CRD has as well; called by the rules between a job's fields.

    :param needed: the key or the value is in a registered format.
    :raises ConfigurationError: naming the field, with the remedy.
    """
    if needed != (access is not None):
        _refuse(
            "url",
            f"needed with formats {_REGISTERED}, and only there",
            "set schemaRegistry.url, for instance http://schema-registry:8081, or another source.format",
        )
    if access is None:
        return
    if not _URL.fullmatch(access.url):
        _refuse("url", f"{access.url!r} must be http://host:port or https://host, without user and password")
    if access.authority is not None and not access.url.startswith("https://"):
        _refuse("tls", "needs a url that begins with https://", "set an https:// url, or remove schemaRegistry.tls")
    authentication = access.authentication
    if authentication is None:
        return
    if (authentication.type is RegistryAuthenticationType.BASIC) != bool(authentication.username):
        _refuse("authentication", _BY_TYPE)
    if ":" in authentication.username:
        _refuse("authentication.username", "a user of type: basic has no ':' in its name")


_REGISTERED = " and ".join(kind for kind in Format if kind.traits.registered)
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
    """The remedy for a credential that is missing or unusable."""
    return f"put it into the Secret {secret.name} under the key {secret.key}, in the job's namespace"


def _refuse(field: str, message: str, remedy: str | None = None) -> None:
    msg = f"{_FIELD}.{field}: {message}"
    raise ConfigurationError(msg, remedy=remedy)
