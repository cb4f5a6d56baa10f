"""Carries the totals of Kafka clients from the Python workers to the driver.

A subtask of the continuous engine answers with the totals of its worker. The micro-batch engine reads and writes in
different workers. Each of them writes its totals to a file in the executor's scratch directory, and the write task
answers with all of them.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sparkapp.dataplane.statistics import TOTALS

_SCRATCH = "SPARK_LOCAL_DIRS"
_ENDED_SECONDS = 600.0
"""Age at which the totals of an ended worker are dropped. Spark ends workers that are idle for a minute."""

WorkerTotals = Mapping[str, Mapping[str, int]]
"""Totals by worker process."""


def own() -> dict[str, dict[str, int]]:
    """The totals of this process alone; called by a subtask of the continuous engine."""
    return {_worker(str(os.getpid())): TOTALS.read()}


def publish(attempt_key: str, *, scratch: Path | None = None) -> None:
    """Writes this process's totals for :func:`collect`. Called at the end of a read or write; never fails a task.

    :param attempt_key: names the attempt of the job (:func:`sparkapp.spark.frames.record_policy.attempt_key`).
    """
    folder = _folder(attempt_key, scratch)
    file = folder / f"{os.getpid()}.json"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(TOTALS.read()), encoding="utf-8")
        unfinished.rename(file)


def collect(attempt_key: str, *, scratch: Path | None = None) -> dict[str, dict[str, int]]:
    """The totals of every worker of this executor; called by the write task.

    A worker that ended long ago is among them for the last time: tasks have told its totals to the driver.
    """
    found: dict[str, dict[str, int]] = {}
    for file in _folder(attempt_key, scratch).glob("*.json"):
        with suppress(OSError, ValueError):
            found[_worker(file.stem)] = json.loads(file.read_text(encoding="utf-8"))
            if not Path("/proc", file.stem).exists() and time.time() - file.stat().st_mtime > _ENDED_SECONDS:
                file.unlink()
    return found


def merge(known: dict[str, Mapping[str, int]], found: WorkerTotals) -> None:
    """Adds the totals of a task; called by the write stage for each task of a checkpoint, in any order.

    A task that ended early has older totals of the other workers. Totals only grow, so the greater total counts.
    """
    for worker, totals in found.items():
        before = known.get(worker, {})
        known[worker] = {name: max(count, before.get(name, 0)) for name, count in {**before, **totals}.items()}


def summed(totals: WorkerTotals) -> Counter[str]:
    """Each total over all workers; from any thread."""
    result: Counter[str] = Counter()
    for counts in list(totals.values()):
        result.update(counts)
    return result


def _worker(process: str) -> str:
    return f"{socket.gethostname()}/{process}"


def _folder(attempt_key: str, scratch: Path | None) -> Path:
    if scratch is None:
        scratch = Path(os.environ.get(_SCRATCH, tempfile.gettempdir()).split(",")[0])
    return scratch / f"kafka-clients-{attempt_key}"
