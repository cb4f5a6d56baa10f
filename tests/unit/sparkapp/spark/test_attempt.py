"""The end of an attempt: what an orderly stop retains, and which errors leave nothing open."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.checkpoint.retained import CheckpointRetainer
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained_key
from sparkapp.model.errors import (
    CheckpointMissing,
    InvalidArgument,
    KafkaUnreachable,
    SchemaRegistryUnreachable,
    SubtaskMissing,
    TransactionFenced,
    TransformFailed,
)
from sparkapp.model.job.sections.retention import Retention
from sparkapp.model.job.spec import Job
from sparkapp.spark.attempt import Attempt, _is_last
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.plain_job import plain_spec

RESUMED = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="2026-11-21T08:00:00Z", parallelism=1, prefix="p"
)


@pytest.mark.parametrize(
    ("error", "is_last"),
    [
        (InvalidArgument("a person must act"), True),
        (CheckpointMissing("the job is deleted"), True),
        (SubtaskMissing("the next driver may find no room, either"), True),
        (TransformFailed("the operator may give up after it"), True),
        (SchemaRegistryUnreachable("so it may after this"), True),
        (KafkaUnreachable("nothing can be ended"), False),
        (TransactionFenced("the next attempt starts at once"), False),
    ],
)
def test_open_transactions_are_ended_where_no_attempt_may_follow_soon(error: Exception, is_last: bool) -> None:
    assert _is_last(error) is is_last


class Entries(MemoryRetainedStore):
    """Retained checkpoints that refuse a change once the document says that the stop was orderly."""

    def __init__(self, document: MemoryStore) -> None:
        super().__init__()
        self._document = document

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        text = self._document.read().text
        assert text is not None
        assert not decode(text, job_uid="uid").drained, "who reads it looks for the entry"
        super().change(put, drop)


class Stopped:
    """An attempt that is asked to stop, and has completed no checkpoint of its own."""

    def __init__(self) -> None:
        self.store = MemoryStore(encode(RESUMED))
        self.retained = Entries(self.store)
        self.events: list[str] = []
        draining = threading.Event()
        draining.set()
        job = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=2, spec=plain_spec())
        writer = DocumentWriter(self.store, RESUMED, self.store.read().version)
        evidence: Any = None
        coordinator = LocalCoordinator(job, writer=writer, evidence=evidence, now=lambda: "2026-11-21T08:01:00Z")
        reporter = SimpleNamespace(event=lambda reason, _: self.events.append(reason))
        progress = SimpleNamespace(snapshot=SimpleNamespace(checkpoint_id=7))
        parts: dict[str, Any] = dict.fromkeys(
            ("session", "folder", "claim", "control", "consumer", "enumerator", "group_offsets", "announcements")
        )
        context: Any = SimpleNamespace(job=job, draining=draining, reporter=reporter, progress=progress)
        self.attempt = Attempt(
            context=context, coordinator=coordinator,
            retainer=CheckpointRetainer(
                self.retained, claim=Claim(self.store, job_uid="uid", attempt=2), retention=Retention(), latest=7,
                tell=lambda *_: None, draining=draining.is_set,
            ),
            **parts,
        )  # fmt: skip

    @property
    def document(self) -> CheckpointDocument:
        text = self.store.read().text
        assert text is not None
        return decode(text, job_uid="uid")


def test_a_document_that_is_drained_has_its_entry_already() -> None:
    stopped = Stopped()
    engine: Any = SimpleNamespace(finished=False)
    stopped.attempt._end(engine)
    assert stopped.document.drained
    assert list(stopped.retained.texts) == [retained_key(7)]
    assert stopped.events == ["Drained"]


def test_a_start_that_is_stopped_retains_the_checkpoint_that_it_resumes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt before may have ended without that."""
    stopped = Stopped()
    monkeypatch.setattr(Attempt, "_made_engine", lambda _: SimpleNamespace())
    monkeypatch.setattr(Attempt, "_measure_load", lambda *_: None)
    stopped.attempt.run()
    assert list(stopped.retained.texts) == [retained_key(7)]
    assert not stopped.document.drained
