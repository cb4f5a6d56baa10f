"""The last attempt of a deleted job: what it retains before its document is drained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained_key
from sparkapp.model.checkpoint.retained_codec import decode_retained
from sparkapp.model.errors import CheckpointRefused
from sparkapp.model.job.spec import Job
from sparkapp.model.report import AttemptOutcome, Termination
from sparkapp.spark import settling
from sparkapp.spark.state.query_log import decode_engine
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.plain_job import plain_spec
from tests.unit.sparkapp.spark.state.test_retained_state import document, put

NUMBER = 12


class Settled:
    """A job with state on a volume. Attempt 1 was killed; recovery has committed the transactions of checkpoint 12."""

    def __init__(self, folder: Path, *, removes: bool = False) -> None:
        put(folder, "2.snapshot", "3.delta", "4.delta")
        self.folder = folder
        self.claimed = document(NUMBER, attempt=2)
        self.store = MemoryStore(encode(self.claimed))
        self.version = self.store.read().version
        spec = plain_spec(state_claim="claim")
        self.job = Job(
            namespace="shop", name="orders", uid="uid", generation=1, attempt=2, spec=spec, settles_only=True,
            removes_state=removes,
        )  # fmt: skip

    def recover(self, *_: object, **__: object) -> Recovery:
        return Recovery(document=self.claimed, version=self.version, first_start=False, lost=(), committed=2, aborted=0)

    def run(self, retained: RetainedStore) -> Termination:
        return settling.settle(
            self.job, store=self.store, retained=retained, credentials=self.folder, folder=self.folder
        )

    @property
    def document(self) -> CheckpointDocument:
        text = self.store.read().text
        assert text is not None
        return decode(text, job_uid="uid")


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker is asked."""
    opened = SimpleNamespace(close=lambda: None, ids=None, source=None, sink=None)
    monkeypatch.setattr(settling.JobClusters, "opened", lambda *_: opened)


@pytest.fixture
def settled(tmp_path: Path, clusters: None, monkeypatch: pytest.MonkeyPatch) -> Settled:
    found = Settled(tmp_path)
    monkeypatch.setattr(settling, "recover", found.recover)
    return found


class Entries(MemoryRetainedStore):
    """Retained checkpoints that refuse a change once the document is drained."""

    def __init__(self, settled: Settled) -> None:
        super().__init__()
        self._settled = settled

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        assert not self._settled.document.drained, "the operator makes the snapshot now"
        super().change(put, drop)


def test_what_is_settled_is_retained_with_its_state_before_the_document_is_drained(settled: Settled) -> None:
    entries = Entries(settled)
    last = settled.run(entries)
    assert (last.outcome, last.message) == (
        AttemptOutcome.DRAINED, "settled: 2 transaction(s) committed, 0 aborted"
    )  # fmt: skip
    assert settled.document.drained
    key = retained_key(NUMBER)
    entry = decode_retained(entries.texts[key], key=key, job_uid="uid")
    assert entry.orderly
    assert decode_engine(entry.engine).retained == NUMBER
    assert (settled.folder / f"retained/checkpoint-{NUMBER}/state/0/1/3.delta").exists()


def test_a_checkpoint_that_cannot_be_retained_is_settled_and_named(settled: Settled) -> None:
    class Refusing(MemoryRetainedStore):
        def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
            msg = "the API server answered 403"
            raise CheckpointRefused(msg)

    last = settled.run(Refusing())
    assert settled.document.drained
    assert last.outcome is AttemptOutcome.DRAINED
    assert last.message == (
        "settled: 2 transaction(s) committed, 0 aborted; checkpoint 12 could not be retained (it is the last of the"
        " stop): the API server answered 403"
    )


def test_an_attempt_that_was_replaced_neither_retains_nor_drains(settled: Settled) -> None:
    settled.store.write(encode(replace(settled.claimed, attempt=3)), expected=settled.version)
    entries = MemoryRetainedStore()
    assert settled.run(entries).outcome is AttemptOutcome.FAILED
    assert entries.texts == {}
    assert not settled.document.drained


def test_state_that_is_removed_is_not_retained_before(
    tmp_path: Path, clusters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    removing = Settled(tmp_path, removes=True)
    monkeypatch.setattr(settling, "recover", removing.recover)
    entries = MemoryRetainedStore()
    assert removing.run(entries).outcome is AttemptOutcome.DRAINED
    assert entries.texts == {}
    assert not tmp_path.exists()
