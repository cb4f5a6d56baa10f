"""One real broker with every kind of listener that a job can use, and with ACLs.

``plain`` is for the test itself: everybody there is a super user. The users of all other listeners have what a test
grants to the principal ``User:job``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from localcluster.kafka.broker import Broker
from localcluster.kafka.distribution import SHORT_LIVED, KafkaDistribution
from localcluster.kafka.properties import Listener
from localcluster.kubernetes.pki import Certificate
from localcluster.machine.ports import free_ports
from localcluster.progress import Progress
from localcluster.settings import Settings
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.job.access.mounts import secret_folders
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.sections.kafka import KafkaCluster
from tests.support.kafka.tls.certificates import CertificateAuthority
from tests.support.kafka.tls.mounted_secret import mount_secret
from tests.support.kafka.tls.token_server import AUDIENCE, ISSUER, TokenIssuer, TokenServer

USER = "job"
PASSWORD = 'pa55:w"rd=, für-den-Job'
_SECURITY = "org.apache.kafka.common.security"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = {
    "plain": "PLAINTEXT", "tls": "SSL", "mtls": "SSL", "sasl": "SASL_SSL", "insecure": "SASL_PLAINTEXT",
    "expired": "SSL", "otherhost": "SSL", "reauth": "SASL_SSL",
}  # fmt: skip
REAUTH_MILLIS = "6000"
"""So often do clients of the listener ``reauth`` prove anew who they are (KIP-368)."""
_MTLS = "listener.name.mtls."
AUTHENTICATIONS = ("tls", "mtls", "plain", "scram-sha-256", "scram-sha-512", "oauth", "oauth-file")
"""What :meth:`TlsBroker.kafka` makes ``spec.kafka`` of."""


class TlsBroker:
    """The broker; a context manager.

    :param host: the address of every listener.
    """

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", heap: str = "512m", options: Sequence[str] = SHORT_LIVED
    ) -> None:
        settings = Settings.from_environment()
        distribution = KafkaDistribution.of(settings)
        distribution.fetch(settings, Progress())
        self.folder = folder
        self._host = host
        self.authority = CertificateAuthority(folder / "pki")
        self.user = self.authority.issue(USER)
        self.issuer = TokenIssuer()
        self.tokens: TokenServer | None = None
        """The authorization server, set by who runs it."""
        folder.mkdir(parents=True, exist_ok=True)
        self._keys = folder / "keys.json"
        self.issuer.write_keys(self._keys)
        *ports, self._controller_port = free_ports(len(LISTENERS) + 1)
        self.ports = dict(zip(LISTENERS, ports, strict=True))
        self._broker = Broker(
            folder / "broker",
            distribution=distribution,
            listeners=[Listener("PLAIN", host, self.ports["plain"])],
            controller_port=self._controller_port,
            overrides=self._overrides(),
            heap=heap,
            options=[*options, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys.as_uri()}"],
        )
        self.bootstrap = self.address("plain")

    def address(self, listener: str) -> str:
        """``host:port`` of a listener."""
        return f"{self._host}:{self.ports[listener]}"

    def __enter__(self) -> Self:
        self._broker.start()
        self.set_password(PASSWORD)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broker.stop()

    @property
    def broker(self) -> Broker:
        """The process, to kill and start again."""
        return self._broker

    def set_password(self, password: str) -> None:
        """The user's password for SCRAM from now on; connections that are open stay."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            upsertion = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), password.encode())
            for done in admin.alter_user_scram_credentials([upsertion]).values():
                done.result(30)

    def use_on_mtls(self, pair: Certificate | None = None, *trusted: CertificateAuthority) -> None:
        """The listener's own certificate, and whose clients it trusts, from the next connection on.

        :param pair: None goes back to those of the start.
        """
        store, authorities = f"{_MTLS}ssl.keystore.location", f"{_MTLS}ssl.truststore.location"
        values: dict[str, str | None] = {store: None, authorities: None}
        if pair is not None:
            bundle = self.folder / f"trusted-{len(list(self.folder.glob('trusted-*')))}.crt"
            bundle.write_bytes(b"".join(authority.certificate.read_bytes() for authority in trusted))
            values = {store: str(_keystore(pair)), authorities: str(bundle)}
        change = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
        entries = [
            ConfigEntry(name, value, incremental_operation=change[value is None]) for name, value in values.items()
        ]
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(30)

    def spec(self, authentication: str, *, listener: str | None = None, tls: bool = True) -> dict[str, object]:
        """``spec.kafka`` of a job that uses one of :data:`AUTHENTICATIONS`, with a KafkaUser's Secret.

        :param listener: another listener than that of the authentication.
        :param tls: False for a job that takes none, on purpose.
        """
        kind = "oauth" if authentication == "oauth-file" else authentication
        chosen = listener or (authentication if authentication in LISTENERS and authentication != "plain" else "sasl")
        spec: dict[str, object] = {
            "bootstrapServers": self.address(chosen),
            "tls": {"trustedCertificates": [{"secretName": "cluster-ca", "certificate": "ca.crt"}]},
        }
        by_password = {"type": kind, "username": USER, "passwordSecret": {"secretName": USER}}
        proofs: Mapping[str, dict[str, object]] = {
            "mtls": {"type": "tls", "certificateAndKey": {"secretName": USER}},
            "oauth": {
                "type": "oauth", "tokenEndpointUri": self.tokens.url if self.tokens else "", "clientId": USER,
                "scope": "kafka", "audience": AUDIENCE, "clientSecret": {"secretName": USER, "key": "password"},
                "tlsTrustedCertificates": [{"secretName": "cluster-ca", "pattern": "*.crt"}],
            },
            "oauth-file": {"type": "oauth", "accessToken": {"secretName": USER, "key": "token"}},
        }  # fmt: skip
        if authentication != "tls":
            spec["authentication"] = {**proofs.get(authentication, by_password), "allowInsecure": not tls}
        if not tls:
            del spec["tls"]
        return spec

    def cluster(self, authentication: str, *, listener: str | None = None, tls: bool = True) -> KafkaCluster:
        """The same as a job's description has it."""
        return read_part(KafkaCluster, Fields(self.spec(authentication, listener=listener, tls=tls), "spec.kafka"))

    def security(self, cluster: KafkaCluster, **secrets: Any) -> dict[str, str]:
        """The properties of ``spec.kafka``, read from what :meth:`mounted` made."""
        return read_security(cluster, self.mounted(cluster, **secrets))

    def mounted(
        self,
        cluster: KafkaCluster,
        *,
        authority: Path | None = None,
        password: str = PASSWORD,
        user: Certificate | None = None,
        token: str | None = None,
        root: Path | None = None,
    ) -> Path:
        """A folder with the Secrets of ``spec.kafka``, as a pod has them.

        :param root: such a folder, which gets this content.
        """
        pair = user or self.user
        secrets: dict[str, dict[str, bytes]] = {
            "cluster-ca": {"ca.crt": (authority or self.authority.certificate).read_bytes()},
            USER: {
                "user.crt": pair.certificate.read_bytes(), "user.key": pair.key.read_bytes(),
                "password": password.encode(), "token": (token or self.issuer.token(USER)).encode(),
            },
        }  # fmt: skip
        root = root or self.folder / f"mounts-{len(list(self.folder.glob('mounts-*')))}"
        for folder, secret, items in secret_folders(cluster.tls, cluster.authentication):
            files = items or [(key, key) for key in secrets[secret]]
            mount_secret(root / folder, {file: secrets[secret][key] for key, file in files})
        return root

    def config(
        self, authentication: str, *, listener: str | None = None, tls: bool = True, **secrets: Any
    ) -> dict[str, str]:
        """A client's properties."""
        cluster = self.cluster(authentication, listener=listener, tls=tls)
        return {
            "bootstrap.servers": cluster.bootstrap_servers,
            **self.security(cluster, **secrets),
        }

    def _overrides(self) -> dict[str, str]:
        hosts = (self._host, "localhost")
        stores = {
            "": self.authority.issue("broker", *hosts),
            "listener.name.expired.": self.authority.issue("expired", *hosts, lifetime=timedelta(hours=-1)),
            "listener.name.otherhost.": self.authority.issue("other", "elsewhere.test"),
        }
        endpoints = ",".join(f"{name.upper()}://{self._host}:{port}" for name, port in self.ports.items())
        kinds = ",".join(f"{name.upper()}:{kind}" for name, kind in LISTENERS.items())
        overrides = {
            "listeners": f"{endpoints},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": endpoints,
            "listener.security.protocol.map": f"{kinds},CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mtls.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        for listener in ("sasl", "insecure", "reauth"):
            overrides |= self._mechanisms(f"listener.name.{listener}.")
        for mechanism in _MECHANISMS:
            overrides[f"listener.name.reauth.{mechanism.lower()}.connections.max.reauth.ms"] = REAUTH_MILLIS
        for prefix, pair in stores.items():
            overrides[f"{prefix}ssl.keystore.location"] = str(_keystore(pair))
        return overrides

    def _mechanisms(self, listener: str) -> dict[str, str]:
        tokens = f"{listener}oauthbearer.sasl"
        module = f"{_SECURITY}.scram.ScramLoginModule required;"
        return {
            f"{listener}sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            f"{listener}plain.sasl.jaas.config":
                f"{_SECURITY}.plain.PlainLoginModule required user_{USER}={_quoted(PASSWORD)};",
            f"{listener}scram-sha-256.sasl.jaas.config": module,
            f"{listener}scram-sha-512.sasl.jaas.config": module,
            f"{tokens}.jaas.config":
                f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;",
            f"{tokens}.server.callback.handler.class":
                f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            f"{tokens}.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
            f"{tokens}.oauthbearer.expected.audience": AUDIENCE,
            f"{tokens}.oauthbearer.expected.issuer": ISSUER,
        }  # fmt: skip


def _keystore(pair: Certificate) -> Path:
    """Kafka's PEM key store: key and certificate in one file."""
    store = pair.certificate.with_suffix(".pem")
    store.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    return store


def _quoted(value: str) -> str:
    """A value of a JAAS option, in a properties file that is read as Latin 1."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    inner = "".join(char if char.isascii() else f"\\u{ord(char):04x}" for char in escaped.replace("\\", "\\\\"))
    return f'"{inner}"'
