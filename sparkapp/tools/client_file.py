"""Client properties that a person gives to a command in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkapp.model.errors import CommandRefused

_JAVA_ONLY: Mapping[str, str] = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location (PEM files)",
}
"""Properties of Java's clients that would be silently without effect, and librdkafka's for them."""


def read_properties(path: Path) -> dict[str, str]:
    """``name=value`` lines, as Kafka's own tools take them; ``#`` and ``!`` begin a comment line.

    :raises CommandRefused: the file cannot be read, or a line would be without effect.
    """
    properties = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "!")):
            continue
        name, sign, value = (part.strip() for part in stripped.partition("="))
        if not sign or not name:
            msg = f"{path}, line {number} is not name=value"
            raise CommandRefused(msg, remedy="write one client property a line, for instance sasl.username=alice")
        if name in _JAVA_ONLY:
            msg = f"{path}, line {number}: {name} is a property of Java's clients"
            raise CommandRefused(msg, remedy=f"use {_JAVA_ONLY[name]} instead")
        properties[name] = value
    return properties


def read_text(path: Path) -> str:
    """:raises CommandRefused: the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise CommandRefused(msg, remedy="name a file that exists and that you may read") from error
