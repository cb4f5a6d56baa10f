"""Access to a schema registry: ``schemaRegistry`` of source and sink, in the shapes of ``spec.kafka``.

Its credentials are keys of Secrets. The operator mounts them, and driver and executors read the files for each request.
The job's description, Spark's configuration and the environment hold the names of files and Secrets only.
"""

from __future__ import annotations

import re
from dataclasses import field as hidden
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.encoding.schema import HIDDEN, Rule, at, part, text_of
from sparkapp.model.errors import CredentialsUnusable
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.access.mounts import (
    CERTIFICATE_FILE,
    KEY_FILE,
    PASSWORD_FILE,
    TOKEN_FILE,
    TRUSTED,
    USER,
    SecretFolder,
    trusted_folders,
)
from sparkapp.model.job.access.security import (
    CERTIFICATE_AND_KEY,
    PASSWORD_SECRET,
    CertificateAndKey,
    PasswordSecret,
    SecretKey,
    Tls,
    tls_from,
)

SOURCE_REGISTRY, SINK_REGISTRY = "spec.source.schemaRegistry", "spec.sink.schemaRegistry"
_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
_TOKEN = re.compile(r"[\x21-\x7e]+")


class RegistryAuthenticationType(StrEnum):
    """Credentials with each request, or with each connection."""

    BASIC = "basic"
    """A user and a password, or an API key and its secret."""
    BEARER = "bearer"
    """A token."""
    TLS = "tls"
    """A client certificate (mTLS)."""


@part
class RegistryAuthentication:
    """A union by ``type``: ``rules.access_rules`` has the rule for each field."""

    type: RegistryAuthenticationType = at(
        "Kind of the credentials. basic is a user with a password, or an API key with its secret."
        " bearer is a token. tls is a client certificate."
    )
    username: str = at(
        "Name of the registry's user, or the API key.", default="", form=text_of(1, 253, pattern=r"^[^:]+$")
    )
    password_secret: PasswordSecret | None = hidden(default=None, metadata=PASSWORD_SECRET)
    access_token: SecretKey | None = at("Secret that holds the token, with type bearer.", default=None)
    certificate_and_key: CertificateAndKey | None = hidden(default=None, metadata=CERTIFICATE_AND_KEY)
    allow_insecure: bool = at(
        "Permission to send credentials over http. Others on the network can then read them.", default=False
    )


_ADDRESS = Rule(
    "self.matches('^https?://[^/@?#[:space:]]+(/[^@?#[:space:]]*)?$')",
    "schemaRegistry.url is one address as http://host:port or https://host:port, without a user;"
    " schemaRegistry.authentication has the credentials",
)


@part
class RegistryAccess:
    """The registry's address, the job's credentials, and the authorities that the job trusts.

    :param authentication: None for a registry without authentication.
    :param tls: the authorities to trust; None trusts the image's.
    :param directory: where the operator mounts :attr:`folders`.
    :param field: its path in the resource, for messages.
    """

    url: str = at(
        "Address of the registry without user and password, for instance http://schema-registry:8081.",
        form=text_of(0, 512, _ADDRESS),
    )
    authentication: RegistryAuthentication | None = at(
        "Credentials at the registry. They stay in their Secret, which the pods mount.", default=None
    )
    tls: Tls | None = at(
        "Authorities that sign the certificate of the registry. By default those of the image.",
        default=None,
        reader=tls_from,
    )
    directory: str = hidden(default=names.SCHEMA_REGISTRY_DIRECTORY, metadata=HIDDEN)
    field: str = hidden(default=SOURCE_REGISTRY, metadata=HIDDEN)

    @property
    def folders(self) -> tuple[SecretFolder, ...]:
        """The Secrets, with their folders below :attr:`directory`; called by the operator for the pods."""
        found = [] if self.tls is None else list(trusted_folders(TRUSTED, self.tls.trusted_certificates))
        who = self.authentication
        if who is not None and who.password_secret is not None:
            secret = who.password_secret
            found.append(SecretFolder(USER, secret.secret_name, ((secret.password, PASSWORD_FILE),)))
        if who is not None and who.access_token is not None:
            found.append(SecretFolder(USER, who.access_token.secret_name, ((who.access_token.key, TOKEN_FILE),)))
        if who is not None and who.certificate_and_key is not None:
            pair = who.certificate_and_key
            items = ((pair.certificate, CERTIFICATE_FILE), (pair.key, KEY_FILE))
            found.append(SecretFolder(USER, pair.secret_name, items))
        return tuple(found)

    @property
    def user_folder(self) -> Path:
        """Folder of the job's own credentials."""
        return Path(self.directory) / USER


def sink_registry_from(sink: Fields, name: str) -> RegistryAccess | None:
    """The registry of the sink, whose Secrets have folders of their own."""
    if sink.child(name).empty:
        return None
    access = read_part(RegistryAccess, sink.child(name))
    return replace(access, directory=names.SINK_REGISTRY_DIRECTORY, field=SINK_REGISTRY)


def mounted_credential(access: RegistryAccess) -> str | None:
    """The mounted password or token, read for each request because a Secret may change; None where there is none.

    :raises CredentialsUnusable: the Secret is not mounted, has no such key, or its value cannot be sent. The message
        never holds the value.
    """
    who = access.authentication
    if who is None or who.type is RegistryAuthenticationType.TLS:
        return None
    bearer = who.type is RegistryAuthenticationType.BEARER
    try:
        file = access.user_folder / (TOKEN_FILE if bearer else PASSWORD_FILE)
        secret = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        msg = f"the secret of {access.field}.authentication cannot be read: {cause}"
        raise CredentialsUnusable(msg, remedy=_put(who)) from None
    if bearer and not _TOKEN.fullmatch(secret):
        msg = f"the token of {access.field}.authentication is empty, or has characters that a header cannot have"
        raise CredentialsUnusable(msg, remedy=_put(who))
    return secret


def check_registry_access(access: RegistryAccess | None) -> None:
    """Called by the rules of a spec.

    :raises ConfigurationError: the address is none, or the user cannot be sent.
    """
    if access is None:
        return
    require(
        bool(_URL.fullmatch(access.url)),
        f"{access.field}.url",
        f"{access.url!r} must be http://host:port or https://host, without user and password",
    )
    require(
        access.authentication is None or ":" not in access.authentication.username,
        f"{access.field}.authentication.username",
        "a user of type: basic has no ':' in its name",
    )


def _put(who: RegistryAuthentication) -> str:
    """The remedy for a credential that is missing or unusable."""
    name, key = "", ""
    if who.password_secret is not None:
        name, key = who.password_secret.secret_name, who.password_secret.password
    elif who.access_token is not None:
        name, key = who.access_token.secret_name, who.access_token.key
    return f"put it into the Secret {name} under the key {key}, in the job's namespace"
