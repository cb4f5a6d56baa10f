"""The step of a start that gives the query its state: it may take any time, as long as it makes progress."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import StreamStalled
from sparkapp.model.job.spec import Job
from sparkapp.spark.reporting.liveness import CODE_SECONDS, TICK_SECONDS, Watchdog
from sparkapp.spark.state.query_log import EngineState, encode_engine
from sparkapp.spark.wiring.wiring import Wiring
from tests.support.jobs.plain_job import plain_spec

PARTITIONS, VERSIONS = 4, 30
METADATA = json.dumps({"conf": {"spark.sql.shuffle.partitions": str(PARTITIONS)}})


def stalls_of_a_start(folder: Path, monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> list[StreamStalled]:
    """What a watchdog finds while attempt 2 copies the files of attempt 1, on a volume without hard links.

    :param seconds: that a file takes.
    """
    for partition in range(PARTITIONS):
        store = folder / f"attempt-1/state/0/{partition}"
        store.mkdir(parents=True)
        for version in range(1, VERSIONS + 1):
            (store / f"{version}.snapshot").write_text("x")
    now: list[float] = [0.0]
    found: list[StreamStalled] = []
    watchdog = Watchdog(stalled=found.append, clock=lambda: now[0])

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    def copy(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())
        for _ in range(0 if found else int(seconds / TICK_SECONDS)):
            now[0] += TICK_SECONDS
            if (error := watchdog.tick()) is not None:
                found.append(error)

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(shutil, "copyfile", copy)
    job = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=2, spec=plain_spec())
    document = CheckpointDocument(
        job_uid="uid", attempt=2, checkpoint_id=VERSIONS, created_at="", parallelism=1, prefix="p",
        engine=encode_engine(EngineState(VERSIONS, METADATA, base=0, attempt=1)), engine_has_state=True,
    )  # fmt: skip
    environment = SimpleNamespace(store=None, folder=folder, stateful_allowed=True)
    context: Any = SimpleNamespace(job=job, watchdog=watchdog, environment=environment)
    Wiring(context, rotate=lambda: None)._query_folder(None, document)
    return found


def test_a_long_copy_on_a_volume_makes_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PARTITIONS * VERSIONS * 10 > CODE_SECONDS
    assert stalls_of_a_start(tmp_path, monkeypatch, seconds=10) == []


def test_a_file_that_hangs_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stalls = stalls_of_a_start(tmp_path, monkeypatch, seconds=CODE_SECONDS + 2)
    assert stalls
    assert "it was in the copy of query state" in stalls[0].message
