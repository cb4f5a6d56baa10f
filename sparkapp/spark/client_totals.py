"""From all Python workers of an executor to the driver: the totals of their Kafka clients.

The stage that reads and the stage that writes are different workers. Each leaves its totals in a file of the executor's
scratch directory, and the write task, which answers to the driver anyway, brings all of them along.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sparkapp.native.statistics import TOTALS

_SCRATCH = "SPARK_LOCAL_DIRS"

WorkerTotals = Mapping[str, Mapping[str, int]]
"""Totals by worker process."""


def publish(life: str, *, scratch: Path | None = None) -> None:
    """Leaves this process's totals for :func:`collect`. Called at the end of a read or write; never fails a task.

    :param life: names the attempt of the job.
    """
    folder = _folder(life, scratch)
    file = folder / f"{os.getpid()}.json"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(TOTALS.read()), encoding="utf-8")
        unfinished.rename(file)


def collect(life: str, *, scratch: Path | None = None) -> dict[str, dict[str, int]]:
    """The totals of every worker of this executor, those that have ended included."""
    found: dict[str, dict[str, int]] = {}
    host = socket.gethostname()
    for file in _folder(life, scratch).glob("*.json"):
        with suppress(OSError, ValueError):
            found[f"{host}/{file.stem}"] = json.loads(file.read_text(encoding="utf-8"))
    return found


def merge(known: dict[str, Mapping[str, int]], found: WorkerTotals) -> None:
    """Adds what a task has collected; called by the engine for each task of a checkpoint, in any order.

    A task that ended early has collected older totals of the others' workers. Totals only grow, so the greater counts.
    """
    for worker, totals in found.items():
        before = known.get(worker, {})
        known[worker] = {name: max(count, before.get(name, 0)) for name, count in {**before, **totals}.items()}


def summed(totals: WorkerTotals) -> Counter[str]:
    """Over all workers."""
    result: Counter[str] = Counter()
    for one in list(totals.values()):
        result.update(one)
    return result


def _folder(life: str, scratch: Path | None) -> Path:
    if scratch is None:
        scratch = Path(os.environ.get(_SCRATCH, tempfile.gettempdir()).split(",")[0])
    return scratch / f"kafka-clients-{life}"
