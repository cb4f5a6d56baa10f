"""The end of a query: what its error means."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import OffsetsOvertaken, OffsetsWentBackwards
from sparkapp.model.job.spec import Job
from sparkapp.spark.engine.micro_batch.engine import MicroBatchEngine
from sparkapp.spark.engine.micro_batch.query import RunningQuery
from sparkapp.spark.failures import printed
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
    parts: Any = {"spark": None, "enumerator": Enumerator(), "coordinator": SimpleNamespace(document=DOCUMENT)}
    engine = MicroBatchEngine(
        JOB, function=None, folder=Path(), stateful_allowed=True,
        completed=lambda *_: None, **parts,
    )  # fmt: skip
    engine.start()
    with pytest.raises(OffsetsOvertaken, match="explained: reading in-0 at 0 of 9") as caught:
        engine.await_end()
    assert not caught.value.fatal
