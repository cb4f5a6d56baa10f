"""The end of a query: what its error means."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import OffsetsOvertaken, OffsetsWentBackwards, SubtaskMissing
from sparkapp.model.job.spec import Job
from sparkapp.spark.engine.interface import EngineParts
from sparkapp.spark.engine.micro_batch.engine import MicroBatchEngine
from sparkapp.spark.engine.micro_batch.query import RunningQuery
from sparkapp.spark.failures import printed
from sparkapp.spark.state.query_folder import LocalQueryFolder
from sparkapp.spark.state.query_log import QueryLog, restored_engine
from tests.support.jobs.plain_job import plain_spec

DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix="p"
)  # fmt: skip
JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=2,
    spec=plain_spec(),
)  # fmt: skip


class Enumerator:
    def explain(self, error: OffsetsWentBackwards) -> OffsetsWentBackwards:
        return OffsetsOvertaken(f"explained: {error.message}")


def test_a_reader_that_did_not_find_its_offsets_is_explained_by_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark carries the error in its text; what it means is the enumerator's to say."""
    ended: Any = SimpleNamespace(
        isActive=False, exception=lambda: printed(OffsetsWentBackwards("reading in-0 at 0 of 9: gone"))
    )
    server: Any = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(
        "sparkapp.spark.engine.micro_batch.engine.start_query", lambda *_, **__: RunningQuery(ended, server)
    )
    fakes: Any = {
        "spark": None, "enumerator": Enumerator(), "coordinator": SimpleNamespace(document=DOCUMENT, job=JOB),
    }  # fmt: skip
    parts: EngineParts[Any] = EngineParts(completed=lambda *_: None, **fakes)
    log = QueryLog(LocalQueryFolder(Path()), outlives_driver=True, restored=restored_engine(DOCUMENT))
    engine = MicroBatchEngine(parts, function=None, log=log)
    engine.start()
    with pytest.raises(OffsetsOvertaken, match="explained: reading in-0 at 0 of 9") as caught:
        engine.await_end()
    assert not caught.value.fatal


class Query:
    """A query whose batch waits for executors until it is stopped."""

    def __init__(self) -> None:
        self.isActive = True

    def stop(self) -> None:
        self.isActive = False


class Rig:
    """An engine with a checkpoint under way, of which no task has run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, has_run: list[bool]) -> None:
        self.query = Query()
        self.cancelled: list[bool] = []
        query: Any = self.query
        server: Any = SimpleNamespace(close=lambda: None)
        monkeypatch.setattr(
            "sparkapp.spark.engine.micro_batch.engine.start_query", lambda *_, **__: RunningQuery(query, server)
        )
        monkeypatch.setattr("sparkapp.spark.engine.executors.had_executors", lambda _: has_run.pop(0))
        monkeypatch.setattr("sparkapp.spark.engine.executors.has_places", lambda *_: False)
        context = SimpleNamespace(cancelAllJobs=lambda: self.cancelled.append(self.query.isActive))
        fakes: Any = {
            "spark": SimpleNamespace(sparkContext=context), "enumerator": Enumerator(),
            "coordinator": SimpleNamespace(document=DOCUMENT, job=JOB),
        }  # fmt: skip
        parts: EngineParts[Any] = EngineParts(completed=lambda *_: None, **fakes)
        log = QueryLog(LocalQueryFolder(Path()), outlives_driver=True, restored=restored_engine(DOCUMENT))
        self.engine = MicroBatchEngine(parts, function=None, log=log)
        self.engine.start()
        stream = self.engine._stream
        assert stream.plan_checkpoint()
        self.engine.drain()


def test_a_stop_does_not_wait_for_executors_that_have_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: a job that asked for 900 GiB took 122 s to stop, and was then killed."""
    rig = Rig(monkeypatch, has_run=[False, False])
    rig.engine.await_end()
    assert rig.cancelled == [True]
    assert not rig.query.isActive
    rig.engine._stream.fail(SubtaskMissing("of the batch that was cancelled"))
    assert rig.engine._stream.failure is None
    assert not rig.engine.finished


def test_an_executor_that_comes_during_such_a_stop_may_have_left_something(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, has_run=[False, True])
    with pytest.raises(SubtaskMissing, match="an executor came while the job was being stopped"):
        rig.engine.await_end()


def test_a_stop_waits_for_a_checkpoint_whose_tasks_may_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, has_run=[True])
    stream = rig.engine._stream

    def completed_meanwhile(_: float) -> None:
        stream.complete(8)

    monkeypatch.setattr("sparkapp.spark.engine.micro_batch.engine.time.sleep", completed_meanwhile)
    rig.engine.await_end()
    assert rig.cancelled == []
