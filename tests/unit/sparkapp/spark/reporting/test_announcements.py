"""The driver's events on the resource about its recovery."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.checkpoint.recovery.stateless import Left
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.reporting.announcements import Announcements
from tests.support.jobs.plain_job import plain_spec

DOCUMENT = CheckpointDocument(job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix="p")
LOST = KafkaPartitionSplit(TopicPartition("in", 0), 3, 9)
SPEC = plain_spec()
JOB = Job(namespace="n", name="job", uid="uid", generation=1, attempt=2, spec=SPEC)


class Events(list[tuple[str, str, bool]]):
    def event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.append((reason, message, warning))


@pytest.mark.parametrize(
    ("found", "event"),
    [
        ({}, None),
        ({"aborted": 2}, ("TransactionsAborted", "aborted 2 lingering transaction(s) of previous attempts", False)),
        ({"edited": "offsets were edited: in-0 9 -> 3"}, ("StateEdited", "offsets were edited: in-0 9 -> 3", True)),
        (
            {"lost": (LOST,)},
            (
                "TransactionsLost", "the brokers aborted pre-committed transactions: their source ranges are read"
                " and written again: in-0 [3, 9)", True,
            ),
        ),
    ],
)  # fmt: skip
def test_events(found: dict[str, Any], event: tuple[str, str, bool] | None) -> None:
    values: dict[str, Any] = {"lost": (), "committed": 0, "aborted": 0, **found}
    events = Events()
    Announcements(JOB, events).recovery(Recovery(document=DOCUMENT, version="1", first_start=False, **values))
    assert events == ([] if event is None else [event])


def test_an_operator_that_never_forgets_is_announced_once() -> None:
    events = Events()
    announcements = Announcements(JOB, events)
    for _ in range(2):
        announcements.growing_state(("the join", "the aggregation"))
    assert events == [("StateGrows", "the join", True), ("StateGrows", "the aggregation", True)]


def test_a_subtask_is_announced_once() -> None:
    events = Events()
    announcements = Announcements(JOB, events)
    for subtask in (1, 0, 1):
        announcements.subtask_silent(subtask)
        announcements.subtasks_wait({subtask})
    assert [(reason, message.split(",")[0]) for reason, message, _ in events] == [
        ("SubtaskSilent", "subtask 1 is silent"),
        ("SubtasksWait", "subtasks [1] wait for executors: all subtasks run at the same time"),
        ("SubtaskSilent", "subtask 0 is silent"),
    ]


def test_a_stateless_start_says_what_becomes_of_the_records() -> None:
    events = Events()
    announcements = Announcements(JOB, events)
    left = Left(checkpoint_id=6, created_at="2026-11-21T09:00:00Z", offsets={LOST.partition: 9}, had_state=False)
    recovery = Recovery(document=DOCUMENT, version="1", first_start=True, lost=(), committed=0, aborted=0)
    announcements.left_behind(recovery, {LOST.partition: 3})
    announcements.left_behind(replace(recovery, left=left), {LOST.partition: 3})
    assert events == [(
        "StartedStateless", "begins without checkpoint 6 of 2026-11-21T09:00:00Z (spec.upgrade.mode Stateless): 6"
        " record(s) are read and written again, 0 record(s) are skipped", False,
    )]  # fmt: skip


@pytest.mark.parametrize(("number", "ignored"), [(0, True), (7, False)])
def test_a_restore_is_ignored_by_the_first_start_of_a_job_alone(number: int, ignored: bool) -> None:
    """A stateless start behind a checkpoint has served it."""
    events = Events()
    job = replace(JOB, spec=plain_spec(restore=Restore(checkpoint=3, nonce=1)))
    document = replace(DOCUMENT, checkpoint_id=number)
    found = Recovery(document=document, version="1", first_start=True, lost=(), committed=0, aborted=0)
    Announcements(job, events).recovery(found)
    assert [reason for reason, _, _ in events] == (["RestoreIgnored"] if ignored else [])
