"""librdkafka properties of TLS and authentication, from the mounted files; read where a client is created.

Neither the job's description nor Spark's configuration carries a secret. A client that is created later has what the
Secrets hold by then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.errors import CredentialsUnusable
from sparkapp.model.job.access.mounts import (
    CERTIFICATE_FILE,
    CLIENT_SECRET_FILE,
    KEY_FILE,
    PASSWORD_FILE,
    TOKEN_ENDPOINT_TRUSTED,
    TOKEN_FILE,
    TRUSTED,
    USER,
)
from sparkapp.model.job.access.security import (
    SASL_MECHANISM,
    WITH_PASSWORD,
    Authentication,
    AuthenticationType,
    TrustedCertificate,
)
from sparkapp.model.job.sections.kafka import KafkaCluster

DIRECTORY_VARIABLE = "KAFKASPARK_CREDENTIALS"
"""Names another folder for the credentials; for a driver without pods, whose Python workers inherit it."""
OAUTH_CONFIG = "sasl.oauthbearer.config"
"""librdkafka hands its value to the callback that fetches tokens (:mod:`sparkapp.clients.security.oauth_token`)."""
VERIFICATION: Mapping[str, str] = {
    "enable.ssl.certificate.verification": "true",
    "ssl.endpoint.identification.algorithm": "https",
}
"""librdkafka's defaults, written out: no later default switches them off."""


def credentials_directory() -> Path:
    """Where this process finds the folders of both clusters; outside of a pod a variable names it."""
    return Path(os.environ.get(DIRECTORY_VARIABLE, names.CREDENTIALS_DIRECTORY))


def read_security(kafka: KafkaCluster, directory: Path | None = None) -> dict[str, str]:
    """The properties of a cluster's ``tls`` and ``authentication``; empty without both.

    :param directory: by default :func:`credentials_directory`; it has the folders of
        :attr:`KafkaCluster.folders`.
    :raises CredentialsUnusable: a Secret is not mounted, lacks a key, or holds something else.
    """
    directory = credentials_directory() if directory is None else directory
    tls, authentication = kafka.tls, kafka.authentication
    kind = None if authentication is None else authentication.type
    properties: dict[str, str] = {}
    sasl = kind is not None and kind is not AuthenticationType.TLS
    if tls is not None or sasl:
        properties["security.protocol"] = ("SASL_" if sasl else "") + ("SSL" if tls is not None else "PLAINTEXT")
    if tls is not None:
        properties |= VERIFICATION
        field = f"{kafka.field}.tls.trustedCertificates"
        files = trusted_files(directory, kafka.folder_prefix + TRUSTED, tls.trusted_certificates, field)
        if files:
            properties["ssl.ca.pem"] = "\n".join(_read(file, field) for file in files)
    if authentication is not None:
        properties |= _authentication(kafka, authentication, directory)
    return properties


def trusted_files(directory: Path, prefix: str, certificates: Sequence[TrustedCertificate], where: str) -> list[Path]:
    """The mounted files of trusted certificates, in order.

    :param where: the field, for messages.
    :raises CredentialsUnusable: the Secret has no such key, or it is not mounted.
    """
    files = []
    for index, entry in enumerate(certificates):
        folder = directory / f"{prefix}-{index}"
        wanted = entry.certificate or entry.pattern
        # The kubelet's own links begin with two dots.
        names = sorted(path.name for path in folder.glob("*") if not path.name.startswith(".."))
        found = [folder / name for name in names if name == wanted or (entry.pattern and fnmatchcase(name, wanted))]
        if not found:
            msg = f"{where}[{index}]: the Secret {entry.secret_name} has no key {wanted}"
            raise CredentialsUnusable(
                msg, remedy=f"kubectl describe secret {entry.secret_name} -n NAMESPACE lists its keys"
            )
        files += found
    return files


def _authentication(kafka: KafkaCluster, authentication: Authentication, directory: Path) -> dict[str, str]:
    folder, field = directory / f"{kafka.folder_prefix}{USER}", f"{kafka.field}.authentication"
    if authentication.type is AuthenticationType.TLS:
        for name in (CERTIFICATE_FILE, KEY_FILE):
            _read(folder / name, f"{field}.certificateAndKey")
        return {
            "ssl.certificate.location": str(folder / CERTIFICATE_FILE),
            "ssl.key.location": str(folder / KEY_FILE),
        }
    properties = {"sasl.mechanism": SASL_MECHANISM[authentication.type]}
    if authentication.type in WITH_PASSWORD:
        password = _read(folder / PASSWORD_FILE, f"{field}.passwordSecret").rstrip("\r\n")
        return {**properties, "sasl.username": authentication.username, "sasl.password": password}
    return {**properties, OAUTH_CONFIG: json.dumps(_token_source(kafka, authentication, directory), sort_keys=True)}


def _token_source(kafka: KafkaCluster, authentication: Authentication, directory: Path) -> dict[str, object]:
    """What :func:`sparkapp.clients.security.oauth_token.token_of` reads; names of files, no secret."""
    folder = directory / f"{kafka.folder_prefix}{USER}"
    if authentication.client_secret is None:
        return {"tokenFile": str(folder / TOKEN_FILE)}
    trusted = trusted_files(
        directory, kafka.folder_prefix + TOKEN_ENDPOINT_TRUSTED, authentication.tls_trusted_certificates,
        f"{kafka.field}.authentication.tlsTrustedCertificates",
    )  # fmt: skip
    return {
        "tokenEndpointUri": authentication.token_endpoint_uri,
        "clientId": authentication.client_id,
        "clientSecretFile": str(folder / CLIENT_SECRET_FILE),
        "scope": authentication.scope,
        "audience": authentication.audience,
        "trustedFiles": [str(file) for file in trusted],
    }


def _read(file: Path, field: str) -> str:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        msg = f"{file.name} of {field} cannot be read: {cause}"
        remedy = "check that the Secret of that field exists in the job's namespace, with the key that the field names"
        raise CredentialsUnusable(msg, remedy=remedy) from None
    if not text.strip():
        msg = f"{file.name} of {field} is empty"
        raise CredentialsUnusable(msg, remedy="put the value into the Secret that the field names")
    return text
