"""Names and values of secrets, which a resource must not contain. Every rule about them asks this module.

A resource is readable to everybody who may get it, and its text goes into ConfigMaps, pod specs and process arguments.
A secret comes from a Secret: by a field of the resource, or by a variable with ``valueFrom.secretKeyRef``.

The names are from Spark 4.3 (``spark.redaction.regex``, ``spark.ssl``), from Hadoop's file systems, and from librdkafka
(CONFIGURATION.md). The case is ignored, as Spark's redaction does.
"""

from __future__ import annotations

import re

SECRET_NAME = re.compile(
    r"(?i)pass[._-]?(word|phrase|wd)|[._-](pass|pwd)([._-]|$)|secret|token($|[^i]|i[^z])|jaas|key[._-]?pem|"
    r"(access|account|api|auth|encryption|keystore|private|shared|signing)[._-]?key([._-]|$)|azure[._-]sas[._-]"
)
"""A name of a secret; the definition's CEL rules repeat it, so it is also RE2."""
REFERENCE_NAME = re.compile(
    r"(?i)[._-]?(file|path|location|url|uri|dir|directory|endpoint|provider|class|name)$|access[._-]?key[._-]?id$|"
    r"^spark[.]ssl[.]([a-z]+[.])?privatekey$"
)
"""A name that matches :data:`SECRET_NAME` and only tells where the secret is, or whose it is; in the CEL rules, too."""


def names_secret(name: str) -> bool:
    """True where a property, a setting or a variable of this name holds a secret itself. Pure.

    Called by the rules of client properties, Spark settings and environment variables.
    """
    return bool(SECRET_NAME.search(name)) and not REFERENCE_NAME.search(name)


def carries_secret(value: str) -> bool:
    """True where a value has a password in it: in the user part of an address, or in an option ``-Dname=`` of Java.

    Called with the values of Spark settings and environment variables.
    """
    return any(_has_user_and_password(part) for part in value.split("://")[1:]) or any(
        names_secret(option.partition("=")[0]) for option in value.split("-D")[1:] if "=" in option
    )


def _has_user_and_password(address: str) -> bool:
    """For the text behind ``://``: ``user:password@``."""
    authority = address.partition("/")[0]
    user, at, _ = authority.rpartition("@")
    return bool(at) and bool(user.partition(":")[2])
