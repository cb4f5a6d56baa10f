"""Events: one name an occurrence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafkasparkjob_operator.identity import JobIdentity, JobKey
from kafkasparkjob_operator.status.events import (
    MAX_NOTE,
    REMEMBER_SECONDS,
    REMEMBERED,
    JobEvent,
    Published,
    event_manifest,
)

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


def test_what_was_published_is_remembered_for_a_while_and_only_so_many() -> None:
    published = Published()
    key = JobKey("team", "orders")
    assert not published.knows(key, "one", NOON)
    published.note(key, "one", NOON)
    assert published.knows(key, "one", NOON)
    assert not published.knows(JobKey("team", "bills"), "one", NOON)
    assert not published.knows(key, "one", NOON - timedelta(seconds=1)), "the clock was set back"
    assert not published.knows(key, "one", NOON + timedelta(seconds=REMEMBER_SECONDS))
    for number in range(REMEMBERED):
        published.note(key, f"later-{number}", NOON)
    assert not published.knows(key, "one", NOON)
    assert published.knows(key, "later-0", NOON)
    published.forget(key)
    assert not published.knows(key, "later-0", NOON)
