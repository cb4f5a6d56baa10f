"""Why a TLS connection to a broker fails. librdkafka says the same of an expired certificate and of a wrong authority.

Python's own handshake, with the same authorities, certificate and key, has the cause.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import CredentialsUnusable, TlsFailed

_SECONDS = 5.0
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_EOF_WHILE_READING")
_REFUSED_CERTIFICATE = "spec.kafka.authentication.certificateAndKey"


def uses_tls(config: Mapping[str, str]) -> bool:
    """Whether a client of this configuration speaks TLS."""
    return config.get("security.protocol", "").upper().endswith("SSL")


def tls_context(config: Mapping[str, str]) -> ssl.SSLContext:
    """A context that verifies the broker's certificate and host name, from librdkafka's properties; reads the files.

    :raises CredentialsUnusable: a certificate or key cannot be read or used.
    """
    try:
        context = ssl.create_default_context(
            cafile=config.get("ssl.ca.location") or None, cadata=config.get("ssl.ca.pem") or None
        )
        if "ssl.certificate.location" in config:
            context.load_cert_chain(
                config["ssl.certificate.location"], config.get("ssl.key.location"), config.get("ssl.key.password")
            )
    except (OSError, ValueError) as error:
        msg = f"the certificates or the key for TLS cannot be used: {error}"
        remedy = "check that the Secrets hold certificates and an unencrypted key, both in PEM"
        raise CredentialsUnusable(msg, remedy=remedy) from error
    return context


def tls_problem(config: Mapping[str, str], deadline: Deadline) -> TlsFailed | None:
    """The first bootstrap broker with which a handshake fails, and why; None where none fails for TLS itself.

    Called after a client could not connect.
    """
    speaks_tls = uses_tls(config)
    context = tls_context(config) if speaks_tls else None
    for server in config["bootstrap.servers"].split(","):
        host, _, port = server.strip().rpartition(":")
        host = host.strip("[]")
        try:
            with socket.create_connection((host, int(port)), timeout=deadline.bound(_SECONDS) or 0.1) as connection:
                if context is None:
                    problem = _answers_in_tls(connection, server)
                else:
                    problem = _handshake(context, connection, host, server)
        except OSError:
            continue  # no connection: another cause
        if problem is not None:
            return problem
    return None


def _handshake(context: ssl.SSLContext, connection: socket.socket, host: str, server: str) -> TlsFailed | None:
    try:
        with context.wrap_socket(connection, server_hostname=host) as secure:
            _provoke_alert(secure)
    except ssl.SSLCertVerificationError as error:
        return TlsFailed(f"the certificate of broker {server} was refused: {error.verify_message}")
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if reason in _NO_TLS:
            return TlsFailed(
                f"broker {server} does not speak TLS at this port: {reason}",
                remedy="name the port of a TLS listener in spec.kafka.bootstrapServers, or remove spec.kafka.tls",
            )
        return TlsFailed(
            f"broker {server} ended the TLS handshake: {reason}",
            remedy=f"check {_REFUSED_CERTIFICATE}: the broker's alert names what is wrong with it",
        )
    except OSError:
        return None
    return None


def _provoke_alert(secure: ssl.SSLSocket) -> None:
    """With TLS 1.3 a server refuses the client's certificate after the handshake: only a read tells.

    A broker that accepts it sends nothing until it is asked.
    """
    secure.settimeout(1.0)
    try:
        secure.recv(1)
    except TimeoutError:
        return


def _answers_in_tls(connection: socket.socket, server: str) -> TlsFailed | None:
    """Whether a broker that a client without TLS cannot talk to wants TLS: it then completes a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except OSError:
        return None
    return TlsFailed(
        f"broker {server} wants TLS at this port",
        remedy="set spec.kafka.tls, or name the port of another listener in spec.kafka.bootstrapServers",
    )
