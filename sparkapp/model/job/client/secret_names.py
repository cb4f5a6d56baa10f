"""Names and values of secrets, which a resource must not contain. Every rule about them asks this module.

A resource is readable to everybody who may get it, and its text goes into ConfigMaps, pod specs and process arguments.
A secret comes from a Secret: by a field of the resource, or by a variable with ``valueFrom.secretKeyRef``.

The names are from Spark 4.3 (``spark.redaction.regex``, ``spark.ssl``), from Hadoop's file systems, and from librdkafka
(CONFIGURATION.md). The case is ignored, as Spark's redaction does. The forms are those of RFC 7468 (PEM), of Java's
login modules (JAAS), and of the keys that AWS and Google Cloud hand out.
"""

from __future__ import annotations

import base64
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
PEM_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY")
"""The first line of a private key, in any of its forms."""
_PEM_IN_BASE64 = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]*")
"""A PEM file in base64, as Secrets and service accounts are handed out."""
_GOOGLE_KEY = re.compile(r"AIza[0-9A-Za-z_-]{35}|GOCSPX-[0-9A-Za-z_-]{20}")
_AWS_LENGTH = 40
_AWS_CHARACTERS = re.compile(r"[A-Za-z0-9/+]+")
_WORD = re.compile(r"[a-z]{8}")
_SEPARATOR = re.compile(r"[;,&?\s]")
_JAAS_SECRET = re.compile(r"(?i)(password|secret)\s*=")
_OPTION_WITH_SECRET = re.compile(r"(?i)(pass(word|wd|phrase)|pwd|secret|(access|account|secret)[._-]?key)$")
"""The end of an option's name in a connection string. Narrower than :data:`SECRET_NAME`, as arguments differ."""


def names_secret(name: str) -> bool:
    """True where a property, a setting or a variable of this name holds a secret itself. Pure.

    Called by the rules of client properties, Spark settings and environment variables.
    """
    return bool(SECRET_NAME.search(name)) and not REFERENCE_NAME.search(name)


def carries_secret(value: str) -> bool:
    """True where a value has a secret in it: a private key, a key of a cloud, or a password among other settings.

    Passwords are found in the user part of an address, in an option ``-Dname=`` of Java, in a JAAS configuration and in
    a connection string. A reference to a variable (``$(NAME)``) is no password. An id of a key is none either.

    Called with the values of client properties, Spark settings, environment variables and annotations. Takes time that
    grows with the length of the value.
    """
    return (
        _has_key(value)
        or any(_has_user_and_password(part) for part in value.split("://")[1:])
        or any(names_secret(option.partition("=")[0]) for option in value.split("-D")[1:] if "=" in option)
        or any(map(_is_option_with_secret, _SEPARATOR.split(value)))
        or ("LoginModule" in value and bool(_JAAS_SECRET.search(value)))
    )


def _has_key(value: str) -> bool:
    if PEM_KEY.search(value) or _GOOGLE_KEY.search(value):
        return True
    if any(map(_is_key_of_aws, _AWS_CHARACTERS.findall(value))):
        return True
    # base64 may be wrapped, and an incomplete group at its end says nothing.
    encoded = _PEM_IN_BASE64.findall("".join(value.split()))
    return any(PEM_KEY.search(base64.b64decode(text[: len(text) // 4 * 4]).decode("latin-1")) for text in encoded)


def _is_key_of_aws(text: str) -> bool:
    """Whether a text looks like drawn by lot. A name has longer runs of small letters, and a digest has one case."""
    if len(text) != _AWS_LENGTH or text.count("/") > 3 or _WORD.search(text):
        return False
    upper, lower = sum(map(str.isupper, text)), sum(map(str.islower, text))
    return upper >= 3 and lower >= 3 and any(map(str.isdigit, text))


def _is_option_with_secret(option: str) -> bool:
    name, _, value = (part.strip("\"'") for part in option.partition("="))
    return bool(value) and not value.startswith("$") and bool(_OPTION_WITH_SECRET.search(name))


def _has_user_and_password(address: str) -> bool:
    """For the text behind ``://``: ``user:password@``."""
    authority = address.partition("/")[0]
    user, at, _ = authority.rpartition("@")
    return bool(at) and bool(user.partition(":")[2])
