"""``tls`` and ``authentication`` of a Kafka cluster, in the shapes of Strimzi's KafkaConnect and KafkaBridge.

Passwords, keys, tokens and certificates are keys of Secrets in the job's namespace. The pods mount them
(:mod:`sparkapp.model.job.access.mounts`); the description of a job has names only.
"""

from __future__ import annotations

import re
from dataclasses import field
from enum import StrEnum

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.encoding.schema import Rule, at, items_of, metadata, part, text_of
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.forms import OBJECT, OBJECT_KEY

MAX_TRUSTED = 8
"""Entries of ``trustedCertificates``; each is a volume of the pods."""
_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@#]*)?")


class AuthenticationType(StrEnum):
    """How the job proves to the brokers who it is, by Strimzi's names."""

    TLS = "tls"
    """A client certificate (mTLS)."""
    SCRAM_SHA_256 = "scram-sha-256"
    SCRAM_SHA_512 = "scram-sha-512"
    PLAIN = "plain"
    OAUTH = "oauth"
    """SASL OAUTHBEARER with a token of an authorization server or of a file."""


SASL_MECHANISM = {
    AuthenticationType.PLAIN: "PLAIN",
    AuthenticationType.SCRAM_SHA_256: "SCRAM-SHA-256",
    AuthenticationType.SCRAM_SHA_512: "SCRAM-SHA-512",
    AuthenticationType.OAUTH: "OAUTHBEARER",
}
"""Kafka's name of the mechanism; TLS is none."""
WITH_PASSWORD = (AuthenticationType.PLAIN, AuthenticationType.SCRAM_SHA_256, AuthenticationType.SCRAM_SHA_512)


_SECRET_NAME = metadata("Name of a Secret in the job's namespace.", form=OBJECT)
CERTIFICATE_AND_KEY = metadata("Client certificate. The defaults are the keys of the Secret of a KafkaUser.")
PASSWORD_SECRET = metadata("Password of the user.")
"""Metadata of fields that brokers and registry have alike."""
_ADDRESS = Rule(
    "self.matches('^https?://[^/@?#[:space:]]+(/[^@#[:space:]]*)?$')",
    "kafka.authentication.tokenEndpointUri is an address as https://host/path, without blanks and without a user",
)


@part
class TrustedCertificate:
    """Certificates of authorities in a Secret; exactly one of ``certificate`` and ``pattern`` is set."""

    secret_name: str = field(metadata=_SECRET_NAME)
    certificate: str = at("Key of the Secret that holds the certificates.", default="", form=OBJECT_KEY)
    pattern: str = at("Shell pattern of keys of the Secret, for instance *.crt.", default="", form=OBJECT_KEY)


_TRUSTED = metadata(
    "Certificates in PEM of the authorities to trust, instead of those of the image.", form=items_of(0, MAX_TRUSTED)
)


@part
class Tls:
    """TLS with the server's certificate verified, and its host name.

    :param trusted_certificates: the authorities to trust; empty trusts those of the image.
    """

    trusted_certificates: tuple[TrustedCertificate, ...] = field(default=(), metadata=_TRUSTED)


def tls_from(fields: Fields, name: str) -> Tls | None:
    """Reads ``tls`` of a resource: ``tls: {}`` is TLS with the image's authorities, no ``tls`` is none."""
    return read_part(Tls, fields.child(name)) if fields.has(name) else None


@part
class CertificateAndKey:
    """A client certificate; the defaults are the keys of a Secret that Strimzi makes for a KafkaUser."""

    secret_name: str = field(metadata=_SECRET_NAME)
    certificate: str = at("Key of the certificate in PEM.", default="user.crt", form=OBJECT_KEY)
    key: str = at("Key of the private key in PEM. It has no passphrase.", default="user.key", form=OBJECT_KEY)


@part
class PasswordSecret:
    """A password; the default is the key of a Secret that Strimzi makes for a KafkaUser."""

    secret_name: str = field(metadata=_SECRET_NAME)
    password: str = at(
        "Key that holds the password. The default is that of the Secret of a KafkaUser.",
        default="password",
        form=OBJECT_KEY,
    )


@part
class SecretKey:
    """One key of a Secret."""

    secret_name: str = field(metadata=_SECRET_NAME)
    key: str = at("Key of the Secret.", form=OBJECT_KEY)


@part
class ServiceAccountToken:
    """A token of the pods' service account, which the kubelet writes and renews."""

    audience: str = at("Audience of the token.", form=text_of(1, 1024))
    expiration_seconds: int = at("Lifetime of a token, in seconds.", default=3600, low=600, high=86400)


@part
class Authentication:
    """A union by ``type``: ``rules.access_rules`` has the rule for each field."""

    type: AuthenticationType = at(
        "Kind of the proof. tls is a client certificate. scram-sha-256, scram-sha-512 and plain are"
        " a password with that SASL mechanism. oauth is SASL OAUTHBEARER with a token."
    )
    certificate_and_key: CertificateAndKey | None = field(default=None, metadata=CERTIFICATE_AND_KEY)
    username: str = at("Name of the Kafka user.", default="", form=text_of(1, 253))
    password_secret: PasswordSecret | None = field(default=None, metadata=PASSWORD_SECRET)
    token_endpoint_uri: str = at(
        "Address of the authorization server that gives tokens for clientId and clientSecret (grant"
        " type client_credentials).",
        default="",
        form=text_of(1, 1024, _ADDRESS),
    )
    client_id: str = at("Id of the client at the authorization server.", default="", form=text_of(1, 253))
    client_secret: SecretKey | None = at(
        "Secret of the client. The job reads it again before it fetches a token.", default=None
    )
    scope: str = at("Scope of the token.", default="", form=text_of(1, 1024))
    audience: str = at("Audience of the token.", default="", form=text_of(1, 1024))
    tls_trusted_certificates: tuple[TrustedCertificate, ...] = field(default=(), metadata=_TRUSTED)
    access_token: SecretKey | None = at(
        "Secret that holds the token itself. The job reads it again before the token expires.", default=None
    )
    service_account_token: ServiceAccountToken | None = at(
        "Token of the job's service account, which the kubelet writes and renews.", default=None
    )
    allow_insecure: bool = at(
        "Permission to send credentials without TLS. Others on the network can then read a password or a token.",
        default=False,
    )


def check_token_endpoint(authentication: Authentication | None, where: str) -> None:
    """Called by the rules of a spec.

    :param where: the cluster's path in the resource.
    :raises ConfigurationError: the address of the authorization server is none.
    """
    uri = "" if authentication is None else authentication.token_endpoint_uri
    require(
        not uri or bool(_URL.fullmatch(uri)),
        f"{where}.authentication.tokenEndpointUri",
        f"{uri!r} must be https://host/path, without user and password",
    )
