"""ResourceQuotas of a namespace, as far as they limit executors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

EXCEEDED = "exceeded quota"
"""In the API server's answer to a request that a quota refuses."""
_QUANTITY = re.compile(r"([0-9]{1,24}(?:\.[0-9]{1,9})?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}  # fmt: skip
_OF_EXECUTORS = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes of pods that have requests and no deadline. A quota of other pods, or of a priority, is left out."""


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A resource that a quota limits.

    :param quota: name of the ResourceQuota. :param resource: for instance ``requests.cpu``.
    :param hard: the limit, and ``used`` of it, in cores, bytes or objects.
    """

    quota: str
    resource: str
    hard: Decimal
    used: Decimal


def quota_rows(bodies: Iterable[Mapping[str, Any]]) -> tuple[QuotaRow, ...]:
    """The rows of a namespace's ResourceQuotas. What cannot be read limits nothing: Kubernetes decides in any case."""
    rows = []
    for body in bodies:
        spec, status = body.get("spec") or {}, body.get("status") or {}
        if spec.get("scopeSelector") or not _OF_EXECUTORS.issuperset(spec.get("scopes") or ()):
            continue
        used = status.get("used") or {}
        for resource, text in (status.get("hard") or {}).items():
            hard, taken = _number(text), _number(used.get(resource, "0"))
            if hard is not None and taken is not None:
                rows.append(QuotaRow(str(body["metadata"]["name"]), str(resource), hard, taken))
    return tuple(rows)


def _number(text: object) -> Decimal | None:
    match = _QUANTITY.fullmatch(str(text))
    return None if match is None else Decimal(match[1]) * _UNITS[match[2] or ""]
