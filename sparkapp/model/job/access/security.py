"""``spec.kafka.tls`` and ``spec.kafka.authentication``, in the shapes of Strimzi's KafkaConnect and KafkaBridge.

Passwords, keys, tokens and certificates are keys of Secrets in the job's namespace. The pods mount them
(:mod:`sparkapp.model.job.access.mounts`); the description of a job has names only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import at, read_part
from sparkapp.model.errors.requirement import require

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedCertificate:
    """Certificates of authorities in a Secret; exactly one of ``certificate`` and ``pattern`` is set.

    :param certificate: a key of the Secret.
    :param pattern: a shell pattern of keys, for instance ``*.crt``.
    """

    secret_name: str
    certificate: str = ""
    pattern: str = ""


def trusted_certificates_from(fields: Fields, name: str) -> tuple[TrustedCertificate, ...]:
    """Reads a list of trusted certificates of a resource; called by ``encoding.resource``."""
    return tuple(
        read_part(TrustedCertificate, Fields(entry, f"{fields.path}.{name}[{index}]"))
        for index, entry in enumerate(fields.objects(name))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS with the server's certificate verified, and its host name.

    :param trusted_certificates: the authorities to trust; empty trusts those of the image.
    """

    trusted_certificates: tuple[TrustedCertificate, ...] = field(
        default=(), metadata=at(reader=trusted_certificates_from)
    )


def tls_from(fields: Fields, name: str) -> Tls | None:
    """Reads ``tls`` of a resource: ``tls: {}`` is TLS with the image's authorities, no ``tls`` is none."""
    return read_part(Tls, fields.child(name)) if fields.has(name) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAndKey:
    """A client certificate; the defaults are the keys of a Secret that Strimzi makes for a KafkaUser."""

    secret_name: str
    certificate: str = "user.crt"
    key: str = "user.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSecret:
    """A password; the default is the key of a Secret that Strimzi makes for a KafkaUser.

    :param password: the key of the Secret.
    """

    secret_name: str
    password: str = "password"  # noqa: S105 - the name of a key


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """One key of a Secret."""

    secret_name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountToken:
    """A token of the pods' service account, which the kubelet writes and renews.

    :param audience: for whom the token is.
    """

    audience: str
    expiration_seconds: int = field(default=3600, metadata=at(low=600))


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """A union by ``type``: :func:`check_security` has the rule for each field."""

    type: AuthenticationType
    username: str = ""
    password_secret: PasswordSecret | None = None
    certificate_and_key: CertificateAndKey | None = None
    token_endpoint_uri: str = ""
    client_id: str = ""
    client_secret: SecretKey | None = None
    scope: str = ""
    audience: str = ""
    tls_trusted_certificates: tuple[TrustedCertificate, ...] = field(
        default=(), metadata=at(reader=trusted_certificates_from)
    )
    access_token: SecretKey | None = None
    service_account_token: ServiceAccountToken | None = None
    allow_insecure: bool = False


def check_security(tls: Tls | None, authentication: Authentication | None) -> None:
    """The rules of both fields, which the CRD has as well; called by the rules between a job's fields.

    :raises ConfigurationError: naming the field, with the remedy.
    """
    check_trusted(() if tls is None else tls.trusted_certificates, "spec.kafka.tls.trustedCertificates")
    if authentication is None:
        return
    place = "spec.kafka.authentication"
    check_trusted(authentication.tls_trusted_certificates, f"{place}.tlsTrustedCertificates")
    kind = authentication.type
    require((authentication.certificate_and_key is not None) == (kind is AuthenticationType.TLS), place, _TLS_FIELDS)
    for given in (bool(authentication.username), authentication.password_secret is not None):
        require(given == (kind in WITH_PASSWORD), place, _LOGIN_FIELDS)
    _check_oauth(authentication, place)
    if tls is None:
        require(kind is not AuthenticationType.TLS, place, "type: tls needs TLS", "set kafka.tls, for instance {}")
        require(
            authentication.allow_insecure,
            place,
            f"type: {kind} without TLS sends credentials that others on the network can read or attack",
            "set kafka.tls, or authentication.allowInsecure: true",
        )


def _check_oauth(authentication: Authentication, place: str) -> None:
    sources = (authentication.client_secret, authentication.access_token, authentication.service_account_token)
    expected = int(authentication.type is AuthenticationType.OAUTH)
    require(sum(source is not None for source in sources) == expected, place, _OAUTH_FIELDS)
    fetched = authentication.client_secret is not None
    for given in (bool(authentication.token_endpoint_uri), bool(authentication.client_id)):
        require(given == fetched, place, _CLIENT_FIELDS)
    optional = (authentication.scope, authentication.audience, authentication.tls_trusted_certificates)
    require(fetched or not any(optional), place, _CLIENT_FIELDS)
    uri = authentication.token_endpoint_uri
    require(
        not uri or bool(_URL.fullmatch(uri)),
        f"{place}.tokenEndpointUri",
        f"{uri!r} must be https://host/path, without user and password",
    )
    require(
        not uri.startswith("http:") or authentication.allow_insecure,
        f"{place}.tokenEndpointUri",
        "the client's secret would be sent without TLS",
        "set an https:// address, or authentication.allowInsecure: true",
    )


def check_trusted(certificates: tuple[TrustedCertificate, ...], where: str) -> None:
    """The rules of a list of trusted certificates.

    :raises ConfigurationError: naming the field, with the remedy.
    """
    require(len(certificates) <= MAX_TRUSTED, where, f"at most {MAX_TRUSTED} entries")
    for index, entry in enumerate(certificates):
        require(
            bool(entry.certificate) != bool(entry.pattern),
            f"{where}[{index}]",
            "set exactly one of certificate and pattern",
            'set certificate: ca.crt, or pattern: "*.crt"',
        )


_TLS_FIELDS = "certificateAndKey is needed with type: tls, and only there"
_LOGIN_FIELDS = (
    "username and passwordSecret are needed with types plain, scram-sha-256 and scram-sha-512, and only there"
)
_OAUTH_FIELDS = (
    "type: oauth takes exactly one of clientSecret, accessToken and serviceAccountToken, and no other type does"
)
_CLIENT_FIELDS = (
    "tokenEndpointUri and clientId are needed with clientSecret;"
    " they, scope, audience and tlsTrustedCertificates belong to it alone"
)
