"""Reads the files that a user names to a command: text, and client properties."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkapp.model.errors import CommandRefused, InputUnreadable

_LOOK = "name a file that exists and that you can read; look at it:"
_JAVA_ONLY: Mapping[str, str] = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location (PEM files)",
}
"""Properties of Java's clients, which have no effect here, and librdkafka's names for them."""


def add_allow_insecure(parser: Any) -> None:
    """Adds the option ``--allow-insecure`` to a parser, or to a group of options."""
    parser.add_argument("--allow-insecure", action="store_true", help="send the credentials of the file without TLS")


_VERIFICATION: Mapping[str, str] = {
    "enable.ssl.certificate.verification": "true",
    "ssl.endpoint.identification.algorithm": "https",
}
"""What a file may repeat, and not change."""
_HOW_TO_FETCH = (
    'write sasl.oauthbearer.config={"tokenFile": "FILE"}, or with tokenEndpointUri, clientId, clientSecretFile,'
    " trustedFiles, scope and audience instead of tokenFile"
)


def read_properties(path: Path, *, allow_insecure: bool) -> dict[str, str]:
    """The properties of a file with ``name=value`` lines, as for Kafka's tools; ``#`` and ``!`` begin a comment.

    Called for ``--config`` and ``--command-config``.

    :param allow_insecure: whether credentials may be sent without TLS.
    :raises CommandRefused: the file cannot be read, a line has no effect, or TLS would be missing or weak.
    """
    properties = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "!")):
            continue
        name, sign, value = (part.strip() for part in stripped.partition("="))
        if not sign or not name:
            msg = f"{path}, line {number}: the line is not name=value"
            raise CommandRefused(msg, remedy="write a client property in each line, for instance sasl.username=alice")
        if name in _JAVA_ONLY:
            msg = f"{path}, line {number}: {name} is a property of Java's clients"
            raise CommandRefused(msg, remedy=f"use {_JAVA_ONLY[name]} instead")
        _check(name, value, where=f"{path}, line {number}")
        properties[name] = value
    protocol = properties.get("security.protocol", "").upper()
    if protocol == "SASL_PLAINTEXT" and not allow_insecure:
        msg = f"{path}: security.protocol=SASL_PLAINTEXT sends credentials without TLS"
        raise CommandRefused(msg, remedy="set security.protocol=SASL_SSL, or add --allow-insecure to the command")
    return properties


def _check(name: str, value: str, *, where: str) -> None:
    wanted = _VERIFICATION.get(name)
    if wanted is not None and value.lower() != wanted:
        msg = f"{where}: {name}={value} would not verify the brokers"
        raise CommandRefused(msg, remedy="remove the line, and name the authority with ssl.ca.location (a PEM file)")
    if name.startswith("sasl.oauthbearer.") and name != "sasl.oauthbearer.config":
        msg = f"{where}: {name} has no effect on these commands"
        raise CommandRefused(msg, remedy=_HOW_TO_FETCH)


def read_text(path: Path) -> str:
    """The text of a file. Each command reads a file of its command line by this function.

    :raises InputUnreadable: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        cause = error.strerror or str(error)
        raise InputUnreadable(
            f"cannot read {path}: {cause}", remedy=f"{_LOOK} ls -l {shlex.quote(str(path))}"
        ) from error
    except UnicodeDecodeError as error:
        msg = f"cannot read {path}: it is no text in UTF-8"
        raise InputUnreadable(msg, remedy=f"{_LOOK} file {shlex.quote(str(path))}") from error
