"""Reads a file of client properties that a user names to a command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkapp.model.errors import CommandRefused

_JAVA_ONLY: Mapping[str, str] = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location (PEM files)",
}
"""Properties of Java's clients, which have no effect here, and librdkafka's names for them."""


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file with ``name=value`` lines, as for Kafka's tools; ``#`` and ``!`` begin a comment.

    Called for ``--config`` and ``--command-config``.

    :raises CommandRefused: the file cannot be read, or a line has no effect.
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
        properties[name] = value
    return properties


def read_text(path: Path) -> str:
    """The text of a file.

    :raises CommandRefused: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {path}: {error}"
        raise CommandRefused(msg, remedy="name a file that exists and that you can read") from error
