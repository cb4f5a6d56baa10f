"""Versions of the objects of jobs, as lists have them: equal versions prove that nothing has changed (ADR 96).

A live look at a job is a dozen requests. A page of a list has the versions of the objects of a hundred jobs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.identity import ROLES_OF_ATTEMPTS, JobKey
from kafkasparkjob_operator.observation.observation import job_key
from sparkapp.model import names

KINDS = ("Pod", "ConfigMap", "Role", "RoleBinding", "NetworkPolicy")
"""What a live look reads or repairs, the job apart."""
_BYTES = 16


class Versions:
    """The versions of each job's objects, as a sum of hashes: of any order, and of the same size for any number.

    :param jobs: of other jobs nothing is kept. Anybody may write the label.
    """

    def __init__(self, jobs: Iterable[JobKey]) -> None:
        self.sums = dict.fromkeys(jobs, 0)

    def add(self, kind: str, body: Mapping[str, Any]) -> None:
        """Adds an object of a list, by its metadata. Called by the sweep."""
        key = job_key(body)
        if key in self.sums:
            self.sums[key] += _hash(kind, body["metadata"])


@dataclass(frozen=True, slots=True)
class Proof:
    """Versions that a list has found.

    :param number: their sum. :param listed_at: when the list was complete, in monotonic seconds.
    """

    number: int
    listed_at: float


def is_proven(before: Proof | None, number: int, *, looked_at: float) -> bool:
    """Whether the objects of a job are as a live look has seen them: it lies between two lists with equal versions.

    :param number: of the newer list. :param looked_at: the begin of the look, in monotonic seconds.
    """
    return before is not None and before.number == number and before.listed_at <= looked_at


def _hash(kind: str, meta: Mapping[str, Any]) -> int:
    """State, report and earlier checkpoints change with each checkpoint, and the watch brings the report."""
    role = (meta.get("labels") or {}).get(names.LABEL_ROLE)
    changes = kind == "ConfigMap" and role not in ROLES_OF_ATTEMPTS
    version = "" if changes else str(meta.get("resourceVersion", ""))
    text = json.dumps([kind, meta["name"], str(meta.get("uid", "")), version])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_BYTES).digest())
