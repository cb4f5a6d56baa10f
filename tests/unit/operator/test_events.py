"""Events: one name an occurrence."""

from __future__ import annotations

from datetime import UTC, datetime

from kafkasparkjob_operator.events import MAX_NOTE, JobEvent, event_manifest
from kafkasparkjob_operator.identity import JobIdentity

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
JOB = JobIdentity("team", "orders", "job-uid")


def test_an_occurrence_has_one_name() -> None:
    def name(occurrence: str, reason: str = "Running", job: JobIdentity = JOB, message: str = "") -> str:
        event = JobEvent(occurrence=occurrence, reason=reason, message=message)
        return str(event_manifest(event, job, resource_version="7", now=NOON)["metadata"]["name"])

    assert name("start/1") == name("start/1", message="another text")
    assert (
        len({name("start/1"), name("start/2"), name("start/1", "Failed"), name("start/1", job=JOB._replace(uid="x"))})
        == 4
    )


def test_long_messages_are_cut_to_what_the_api_server_takes() -> None:
    event = JobEvent(occurrence="x", reason="Failed", message="m" * 5000, warning=True)
    manifest = event_manifest(event, JOB, resource_version="7", now=NOON)
    assert len(manifest["message"]) == MAX_NOTE
    assert manifest["type"] == "Warning"
    assert manifest["involvedObject"]["uid"] == "job-uid"
