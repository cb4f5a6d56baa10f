"""Which checkpoint a snapshot takes: only one whose transactions are proven committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.decisions.checks.snapshots import (
    GIVE_UP_SECONDS,
    PROOF_SECONDS,
    JobObjects,
    NotPinned,
    Pinned,
    choose,
    judge_retention,
)
from kafkasparkjob_operator.observation.observation import job_resource
from kafkasparkjob_operator.status.snapshot_fields import SnapshotReason
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument, StatelessStart
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import Beginnings, DriverState, Report
from tests.support.kubernetes.operator_fixture import UID, job_body
from tests.support.kubernetes.state_fixture import document

WRITTEN = document(UID)
OPEN = replace(WRITTEN, committables=tuple(replace(each, attempt=3) for each in WRITTEN.committables))
"""Checkpoint 7 of attempt 3, whose two transactions may be open."""
FINAL = replace(OPEN, committables=())
EARLIER = replace(FINAL, checkpoint_id=5)
STATEFUL = replace(FINAL, engine_has_state=True)
BEGUN = StatelessStart(asked_by=3, checkpoint_id=7)
MEMBER = {"topics": ["a"], "groupMembership": {"mode": "Subscribe"}}


SNAPSHOT = RetainedCheckpoint(
    checkpoint_id=7, attempt=3, job_uid=UID, created_at="2026-11-21T12:00:00Z", cluster_id="kafka-1",
    offsets={TopicPartition("a", 0): 40, TopicPartition("a", 1): 60}, topic_ids={"a": "0123456789"},
)  # fmt: skip


def begins(first: int = 40, second: int = 0, **changes: Any) -> Beginnings:
    offsets = {TopicPartition("a", 0): first, TopicPartition("a", 1): second, TopicPartition("b", 0): 99}
    return Beginnings(**{"offsets": offsets, "topic_ids": {"a": "0123456789"}, "cluster_id": "kafka-1", **changes})


@pytest.mark.parametrize(
    ("beginnings", "status"),
    [
        (begins(), "True"), (begins(cluster_id=""), "True"), (begins(topic_ids={}), "True"),
        (begins(first=41), "False"), (begins(topic_ids={"a": "another-id"}), "False"),
        (begins(cluster_id="kafka-2", first=41), "Unknown"), (None, "Unknown"),
        (begins(offsets={TopicPartition("a", 0): 40}), "Unknown"),
        (begins(offsets={TopicPartition("a", 0): 41}), "False"),
    ],
    ids=["kept", "cluster unknown", "ids unknown", "deleted", "created again", "cluster", "none", "unread", "first"],
)  # fmt: skip
def test_what_retention_has_deleted_is_known_by_the_drivers_report(beginnings: Beginnings | None, status: str) -> None:
    found = judge_retention(SNAPSHOT, report(beginnings=beginnings))
    assert found.status == status
    reasons = {"True": "HeldByKafka", "False": "RecordsDeleted", "Unknown": "RetentionUnknown"}
    assert found.reason == reasons[status]
    assert judge_retention(SNAPSHOT, None).status == judge_retention(None, report()).status == "Unknown"


def report(**changes: Any) -> Report:
    at = {"attempt": 3, "checkpoint_id": 7, "state": DriverState.RUNNING, "updated_at": "2026-11-21T12:00:00Z"}
    return Report(job_uid=UID, **{**at, **changes})


def found(
    state: CheckpointDocument | str | None = OPEN, *kept: CheckpointDocument, said: Report | None = None, **spec: Any
) -> JobObjects:
    text = encode(state) if isinstance(state, CheckpointDocument) else state
    meta = {"name": names.state_config_map("orders"), "annotations": {names.ANNOTATION_JOB_UID: UID}}
    return JobObjects(
        job=job_resource(job_body(**spec)),
        state={"metadata": meta, "data": {} if text is None else {names.CHECKPOINT_KEY: text}},
        checkpoints={"data": {retained_key(each.checkpoint_id): encode_retained(retained(each)) for each in kept}},
        report=said,
    )


def chosen(
    objects: JobObjects, *, uid: str = "", candidate: CheckpointDocument | None = None, waited: float = 0
) -> Pinned | NotPinned:
    return choose(objects, name="orders", job_uid=uid, candidate=candidate, waited=waited)


def taken(objects: JobObjects, **how: Any) -> int:
    """Number of the checkpoint that is taken; 0 for none."""
    result = chosen(objects, **how)
    return result.checkpoint.checkpoint_id if isinstance(result, Pinned) else 0


def test_a_checkpoint_without_open_transactions_is_taken_at_once() -> None:
    result = chosen(found(FINAL, EARLIER))
    assert isinstance(result, Pinned)
    assert result.checkpoint == retained(FINAL)


def test_an_open_checkpoint_is_not_taken_before_the_driver_reports_it() -> None:
    result = chosen(found(OPEN, EARLIER, said=report(checkpoint_id=6)))
    assert isinstance(result, NotPinned)
    assert (result.reason, result.final, result.candidate) == (SnapshotReason.CHECKPOINT_OPEN, False, OPEN)
    assert taken(found(OPEN, said=report())) == 7


def test_a_checkpoint_that_was_seen_open_is_taken_once_a_later_is_reported() -> None:
    later = replace(OPEN, checkpoint_id=9)
    assert taken(found(later, said=report(checkpoint_id=8)), candidate=OPEN) == 7
    assert taken(found(later, said=report(checkpoint_id=6)), candidate=OPEN) == 0


def test_a_report_of_another_attempt_proves_nothing() -> None:
    assert taken(found(OPEN, said=report(attempt=4, checkpoint_id=8))) == 0
    successor = replace(
        OPEN, attempt=4, committables=tuple(replace(each, attempt=4) for each in OPEN.committables)
    )  # fmt: skip
    result = chosen(found(successor), candidate=OPEN)
    assert isinstance(result, NotPinned)
    assert result.candidate == successor, "the candidate of an attempt that is gone is dropped"


def test_transactions_of_an_earlier_attempt_are_proven_by_their_settling_alone() -> None:
    claimed = replace(OPEN, attempt=4)
    result = chosen(found(claimed, said=report(attempt=4)))
    assert isinstance(result, NotPinned), "recovery may find one of them lost, and go back under the same number"
    assert result.candidate is None


def test_an_older_retained_checkpoint_is_taken_after_a_while() -> None:
    assert taken(found(OPEN, EARLIER, FINAL)) == 7
    assert taken(found(OPEN, EARLIER), waited=PROOF_SECONDS - 1) == 0
    assert taken(found(OPEN, EARLIER), waited=PROOF_SECONDS) == 5


def test_a_retained_checkpoint_after_the_state_or_of_another_job_is_not_taken() -> None:
    ahead = replace(FINAL, checkpoint_id=8)
    foreign = replace(EARLIER, checkpoint_id=6, job_uid="another")
    assert taken(found(OPEN, EARLIER, foreign, ahead), waited=PROOF_SECONDS) == 5


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        (found("{"), SnapshotReason.STATE_UNREADABLE),
        (found(FINAL, source=MEMBER), SnapshotReason.GROUP_HAS_OFFSETS),
        (found(replace(FINAL, job_uid="another")), SnapshotReason.STATE_UNREADABLE),
    ],
)  # fmt: skip
def test_what_no_snapshot_can_hold_is_refused_at_once(objects: JobObjects, reason: SnapshotReason) -> None:
    result = chosen(objects)
    assert isinstance(result, NotPinned)
    assert (result.reason, result.final) == (reason, True)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        (JobObjects(job=None), SnapshotReason.JOB_NOT_FOUND),
        (found(None), SnapshotReason.NO_CHECKPOINT),
        (found(replace(FINAL, checkpoint_id=0)), SnapshotReason.NO_CHECKPOINT),
        (found(replace(FINAL, splits=(), stateless=BEGUN)), SnapshotReason.NO_CHECKPOINT),
        (found(OPEN), SnapshotReason.CHECKPOINT_OPEN),
        (found(STATEFUL), SnapshotReason.STATE_NOT_RETAINED),
        (found(STATEFUL, EARLIER), SnapshotReason.STATE_NOT_RETAINED),
    ],
)
def test_what_may_come_is_awaited_for_some_minutes(objects: JobObjects, reason: SnapshotReason) -> None:
    for waited, final in ((GIVE_UP_SECONDS - 1, False), (GIVE_UP_SECONDS, True)):
        result = chosen(objects, waited=waited)
        assert isinstance(result, NotPinned)
        assert (result.reason, result.final) == (reason, final)


def test_a_job_with_state_gives_the_newest_checkpoint_whose_state_is_retained() -> None:
    engines = {4: "a", 5: "b", 6: "", 8: "ahead"}
    kept = [retained(replace(FINAL, checkpoint_id=number), engine=engine) for number, engine in engines.items()]
    entries = {retained_key(each.checkpoint_id): encode_retained(each) for each in kept}
    result = chosen(replace(found(STATEFUL), checkpoints={"data": entries}))
    assert isinstance(result, Pinned)
    assert (result.checkpoint.checkpoint_id, result.checkpoint.engine) == (5, "b")


def with_state(current: CheckpointDocument, *numbers: int) -> JobObjects:
    """The job's document is at checkpoint 7, and these checkpoints are retained with their state."""
    kept = [retained(replace(FINAL, checkpoint_id=number), engine="a") for number in numbers]
    entries = {retained_key(each.checkpoint_id): encode_retained(each) for each in kept}
    return replace(found(current), checkpoints={"data": entries})


def test_the_entry_of_an_orderly_stop_is_awaited_for_a_while() -> None:
    drained = replace(STATEFUL, drained=True)
    assert taken(with_state(drained, 5, 7)) == 7
    result = chosen(with_state(drained, 5), waited=PROOF_SECONDS - 1)
    assert isinstance(result, NotPinned), "a driver of an earlier release retains behind its document"
    assert (result.reason, result.final) == (SnapshotReason.STATE_NOT_RETAINED, False)
    assert result.message == "checkpoint 7 of the orderly stop is not retained yet"
    assert taken(with_state(drained, 5), waited=PROOF_SECONDS) == 5
    assert taken(with_state(STATEFUL, 5)) == 5, "a driver that runs retains at its interval"


@pytest.mark.parametrize(
    ("objects", "latest"),
    [(with_state(STATEFUL, 5), 7), (with_state(STATEFUL, 7), 7), (found(FINAL), 7), (found(OPEN, EARLIER), 7)],
)
def test_what_is_taken_has_the_number_of_the_jobs_document_with_it(objects: JobObjects, latest: int) -> None:
    result = chosen(objects, waited=PROOF_SECONDS)
    assert isinstance(result, Pinned)
    assert result.latest == latest


@pytest.mark.parametrize(
    ("objects", "reason"),
    [(JobObjects(job=None), SnapshotReason.JOB_NOT_FOUND), (found(FINAL), SnapshotReason.JOB_RECREATED)],
)
def test_a_job_that_was_deleted_meanwhile_is_not_awaited(objects: JobObjects, reason: SnapshotReason) -> None:
    result = chosen(objects, uid="the-first-jobs")
    assert isinstance(result, NotPinned)
    assert (result.reason, result.final) == (reason, True)
