"""Quantities of CPU and memory as Kubernetes writes them (``resource.Quantity``); read by the operator's workload."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from sparkapp.model.errors import ConfigurationError

_MEMORY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_CPU = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(m)?")
_SPARKS_MEMORY = re.compile(r"([0-9]+)([kmgt])b?", re.IGNORECASE)
_MEBIBYTE = 1 << 20
_BYTES = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 1 << 10, "Mi": _MEBIBYTE, "Gi": 1 << 30, "Ti": 1 << 40,
}  # fmt: skip


def mebibytes(text: str, path: str) -> int:
    """A quantity of memory in MiB, rounded up: Spark's settings take whole MiB.

    :param path: of the field, for the message.
    :raises ConfigurationError: it is no such quantity. The remedy has the same amount as Kubernetes writes it.
    """
    match = _MEMORY.fullmatch(text)
    if match is None:
        spark = _SPARKS_MEMORY.fullmatch(text)
        msg = f"{path} must be a quantity as Kubernetes writes it, for instance 512Mi or 2Gi, not {text!r}"
        raise ConfigurationError(msg, remedy=f"write {spark[1]}{spark[2].upper()}i" if spark else None)
    return math.ceil(Decimal(match[1]) * _BYTES[match[2] or ""] / _MEBIBYTE)


def millicores(text: str, path: str) -> int:
    """A quantity of CPU in thousandths of a core.

    :param path: of the field, for the message.
    :raises ConfigurationError: it is no such quantity, or less than 1m.
    """
    match = _CPU.fullmatch(text)
    found = Decimal(match[1]) * (1 if match[2] else 1000) if match else Decimal(0)
    if found < 1:
        msg = f"{path} must be a quantity of CPU like 500m or 2, at least 1m, not {text!r}"
        raise ConfigurationError(msg)
    return int(found)
