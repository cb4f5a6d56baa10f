"""Where the pods have the files of a Kafka cluster: the operator mounts them, driver and executors read them.

A folder holds keys of one Secret, so that a pattern of keys needs no list, and the kubelet renews each by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sparkapp.model.job.access.security import Authentication, SecretKey, Tls, TrustedCertificate

USER = "user"
"""Folder of the job's own credentials."""
TRUSTED = "ca"
"""Beginning of the folders of ``tls.trustedCertificates``; the rest is the entry's index."""
TOKEN_ENDPOINT_TRUSTED = "oauth-ca"  # noqa: S105 - a folder's name
"""Likewise of ``authentication.tlsTrustedCertificates``."""

PASSWORD_FILE = "password"  # noqa: S105 - a file's name
CERTIFICATE_FILE = "user.crt"
KEY_FILE = "user.key"
CLIENT_SECRET_FILE = "client-secret"  # noqa: S105 - a file's name
TOKEN_FILE = "token"  # noqa: S105 - a file's name


class SecretFolder(NamedTuple):
    """Keys of a Secret as files of a folder.

    :param items: keys and the names of their files; empty has each key as a file of its name.
    """

    folder: str
    secret_name: str
    items: tuple[tuple[str, str], ...]


def secret_folders(
    tls: Tls | None, authentication: Authentication | None, *, prefix: str = ""
) -> tuple[SecretFolder, ...]:
    """The Secrets of a cluster; called for :attr:`sparkapp.model.job.sections.kafka.KafkaCluster.folders`.

    :param prefix: beginning of the folders' names.
    """
    found = [] if tls is None else list(trusted_folders(TRUSTED, tls.trusted_certificates))
    if authentication is not None:
        found += trusted_folders(TOKEN_ENDPOINT_TRUSTED, authentication.tls_trusted_certificates)
        found += _credentials(authentication)
    return tuple(folder._replace(folder=prefix + folder.folder) for folder in found)


def trusted_folders(prefix: str, certificates: Sequence[TrustedCertificate]) -> Iterator[SecretFolder]:
    """A folder for each entry of trusted certificates."""
    for index, entry in enumerate(certificates):
        items = ((entry.certificate, entry.certificate),) if entry.certificate else ()
        yield SecretFolder(f"{prefix}-{index}", entry.secret_name, items)


def _credentials(authentication: Authentication) -> Iterator[SecretFolder]:
    password, pair = authentication.password_secret, authentication.certificate_and_key
    if password is not None:
        yield SecretFolder(USER, password.secret_name, ((password.password, PASSWORD_FILE),))
    if pair is not None:
        items = ((pair.certificate, CERTIFICATE_FILE), (pair.key, KEY_FILE))
        yield SecretFolder(USER, pair.secret_name, items)
    for secret, file in ((authentication.client_secret, CLIENT_SECRET_FILE), (authentication.access_token, TOKEN_FILE)):
        if isinstance(secret, SecretKey):
            yield SecretFolder(USER, secret.secret_name, ((secret.key, file),))
