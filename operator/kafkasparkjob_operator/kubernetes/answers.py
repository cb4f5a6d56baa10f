"""Answers of the API server: JSON objects, and errors for refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectConflict, ObjectExists, ObjectRefused

CONFLICT = 409
NOT_FOUND = 404
_INTERNAL = 500
_REFUSALS = frozenset({400, 403, 422})
_WEBHOOK = "failed calling webhook"
"""Text of an answer with status 500 where a webhook with ``failurePolicy: Fail`` is down; nothing was created then."""


def json_object(data: bytes) -> dict[str, Any] | None:
    """The answer's JSON object; None where it is no such object."""
    try:
        answer = json.loads(data)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def error_of(method: str, url: str, status: int, answer: Mapping[str, Any]) -> ClusterError:
    """The error that an answer with such a status is."""
    message = str(answer.get("message") or f"HTTP status {status}")
    text = f"{method} {url}: {message}"
    if status == CONFLICT:
        exists = answer.get("reason") == "AlreadyExists"
        return ObjectExists(text, status=status) if exists else ObjectConflict(text, status=status)
    if status in _REFUSALS or (status == _INTERNAL and _WEBHOOK in message):
        return ObjectRefused(message, status=status)
    return ClusterError(text, status=status)
