"""The ConfigMap with the user's modules: a change of it asks for another attempt, as a change of the spec does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.observation import JobResource, Observation
from kafkasparkjob_operator.status import StatusDraft

DIGEST = "codeDigest"
"""``status.attempt``: of the modules that the attempt was started with."""


def config_map_of(job: JobResource) -> str:
    """``spec.transform.python.configMapRef.name``; empty where the job has none, or a spec that cannot be read."""
    found: Any = job.spec
    for name in ("transform", "python", "configMapRef", "name"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def changed_code(draft: StatusDraft, observation: Observation) -> str:
    """What to say where the modules are not those that the attempt was started with; empty where nothing changed."""
    before, now = draft.section("attempt").get(DIGEST), observation.code
    if not before or not now or before == now:
        return ""
    return f"ConfigMap {config_map_of(observation.job)} of spec.transform has changed: draining at a checkpoint"


def forget_failures(draft: StatusDraft, observation: Observation) -> None:
    """Failures of other modules hold nothing back; called before the next attempt is decided about."""
    if changed_code(draft, observation):
        draft.section("lastFailure").pop("fatal", None)
        if draft.section("restarts").get("consecutiveFailures"):
            draft.section("restarts")["consecutiveFailures"] = 0
