"""The key store of Java: other dates, the same certificates, a digest that Java accepts."""

from __future__ import annotations

import hashlib
import importlib.util
import struct

import pytest

from localcluster.settings import REPOSITORY

_SPEC = importlib.util.spec_from_file_location("keystore_dates", REPOSITORY / "images/common/keystore_dates.py")
assert _SPEC is not None
assert _SPEC.loader is not None
keystore_dates = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(keystore_dates)


def store(milliseconds: int, *, tag: int = 2) -> bytes:
    """A store of two certificates, written as the description of JKS says."""
    content = struct.pack(">III", 0xFEEDFEED, 2, 2)
    for alias in (b"one", b"two"):
        content += struct.pack(">IH", tag, len(alias)) + alias + struct.pack(">Q", milliseconds)
        content += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", 4) + b"cert"
    salt = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"
    return content + hashlib.sha1(salt + content).digest()


def test_only_dates_and_digest_change() -> None:
    assert keystore_dates.with_date(store(1), 7) == keystore_dates.with_date(store(2), 7) == store(7000)


@pytest.mark.parametrize("damaged", [store(1, tag=1), b"\0" + store(1)])
def test_any_other_file_is_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"no certificate|no key store"):
        keystore_dates.with_date(damaged, 7)
