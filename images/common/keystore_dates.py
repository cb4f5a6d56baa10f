"""``keystore_dates.py FILE``: sets the date of each certificate in Java's key store ``FILE`` to ``SOURCE_DATE_EPOCH``.

The package ca-certificates-java writes the date of the installation. The file's format is JKS: a header, the
certificates, and the SHA-1 digest of all that with the password of the store.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from pathlib import Path

_MAGIC = 0xFEEDFEED
_CERTIFICATE = 2
_PASSWORD = "changeit"  # noqa: S105 - Java's default, which is no secret


def with_date(store: bytes, seconds: int) -> bytes:
    """The key store ``store`` with another date of its certificates.

    :raises ValueError: it is no JKS store of certificates alone.
    """
    magic, version, count = struct.unpack_from(">III", store)
    if (magic, version) != (_MAGIC, 2):
        raise ValueError(f"no key store of the format JKS: {magic:#x}, version {version}")
    dated, place = bytearray(store[: -hashlib.sha1().digest_size]), 12  # noqa: S324 - the format's digest
    for _ in range(count):
        tag, length = struct.unpack_from(">IH", dated, place)
        if tag != _CERTIFICATE:
            raise ValueError(f"entry of kind {tag}, which is no certificate")
        place += 6 + length
        struct.pack_into(">Q", dated, place, seconds * 1000)
        place += 8
        (length,) = struct.unpack_from(">H", dated, place)  # the certificate's type, X.509
        place += 2 + length
        (length,) = struct.unpack_from(">I", dated, place)
        place += 4 + length
    salt = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    return bytes(dated) + hashlib.sha1(salt + dated).digest()  # noqa: S324


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_bytes(with_date(file.read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"])))
