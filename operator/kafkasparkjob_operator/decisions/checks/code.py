"""The ConfigMap of the user's modules: its change starts another attempt, as a change of the spec does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.observation.observation import JobResource, Observation
from kafkasparkjob_operator.status.status import StatusDraft

DIGEST = "codeDigest"
"""``status.attempt``: digest of the modules that the attempt was started with."""


def config_map_of(job: JobResource) -> str:
    """``configMapRef.name`` of ``spec.transform.python`` or ``arrow``; empty without one or in an unreadable spec."""
    for kind in ("python", "arrow"):
        found: Any = job.spec
        for name in ("transform", kind, "configMapRef", "name"):
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, str):
            return found
    return ""


def changed_code(draft: StatusDraft, observation: Observation) -> str:
    """The message about modules that changed since the attempt was started; empty where they are the same."""
    before, now = draft.section("attempt").get(DIGEST), observation.code
    if not before or not now or before == now:
        return ""
    return f"the driver drains at a checkpoint: ConfigMap {config_map_of(observation.job)} of its modules has changed"


def note_code(draft: StatusDraft, observation: Observation) -> None:
    """Records the digest for an attempt that was started before its ConfigMap existed.

    Called by the state machine at each look. The driver's pod waits for the ConfigMap, so the first content that the
    operator sees is taken for the content that the driver imports.
    """
    attempt = draft.section("attempt")
    if attempt.get("id") and not attempt.get(DIGEST) and observation.code:
        attempt[DIGEST] = observation.code
