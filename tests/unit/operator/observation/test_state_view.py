"""The state ConfigMap is untrusted: what it may say, and what each saying means for a start."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.state_view import StateKind, state_view
from kafkasparkjob_operator.resources.config_maps import state_config_map
from sparkapp.model.checkpoint.codec import MAX_DOCUMENT_BYTES, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.names import CHECKPOINT_KEY

JOB = JobIdentity("team", "orders", "job-uid")


def document(uid: str = "job-uid") -> str:
    return encode(
        CheckpointDocument(job_uid=uid, attempt=1, checkpoint_id=1, created_at="", parallelism=1, prefix="team.orders")
    )


def body(text: str | None, job: JobIdentity = JOB) -> dict[str, Any]:
    made = state_config_map(job)
    return {**made, "data": {} if text is None else {CHECKPOINT_KEY: text}}


@pytest.mark.parametrize(
    ("config_map", "kind", "reason"),
    [
        (None, StateKind.ABSENT, ""),
        (body(None), StateKind.EMPTY, ""),
        (body(document()), StateKind.VALID, ""),
        (body(document()[:-9]), StateKind.REFUSED, "StateCorrupt"),
        (body(""), StateKind.REFUSED, "StateCorrupt"),
        (body("null"), StateKind.REFUSED, "StateCorrupt"),
        (body("[" * 100_000), StateKind.REFUSED, "StateCorrupt"),
        (body("x" * (MAX_DOCUMENT_BYTES + 1)), StateKind.REFUSED, "StateCorrupt"),
        (body(document().replace('"formatVersion":1', '"formatVersion":99')), StateKind.REFUSED, "StateCorrupt"),
        (body(document("another")), StateKind.REFUSED, "StateForeign"),
        ({**body(None), "binaryData": {CHECKPOINT_KEY: "H4sI"}}, StateKind.REFUSED, "StateCorrupt"),
        ({**body(None), "data": {"backup.json": document()}}, StateKind.REFUSED, "StateCorrupt"),
        (body(None, JOB._replace(uid="previous")), StateKind.COLLECTED, ""),
    ],
)
def test_state(config_map: dict[str, Any] | None, kind: StateKind, reason: str) -> None:
    view = state_view(config_map, JOB)
    assert view.kind is kind
    assert (view.error.reason if view.error is not None else "") == reason
    assert (view.document is not None) == (kind is StateKind.VALID)


def test_a_state_that_was_orphaned_by_a_namesake_is_foreign_even_when_it_is_empty() -> None:
    orphan = body(None, JOB._replace(uid="previous"))
    del orphan["metadata"]["ownerReferences"]
    view = state_view(orphan, JOB)
    assert view.kind is StateKind.REFUSED
    assert view.error is not None
    assert view.error.reason == "StateForeign"


def test_a_config_map_that_somebody_else_made_is_foreign() -> None:
    theirs = {"metadata": {"name": "orders-state", "namespace": "team"}, "data": {"theirs": "precious"}}
    view = state_view(theirs, JOB)
    assert view.kind is StateKind.REFUSED
    assert view.error is not None
    assert view.error.reason == "StateForeign"
