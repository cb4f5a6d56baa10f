"""What a caller asks of a job, the API server answers: a watch may be behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clusterjob.live_job import LiveJob
from sparkapp.model import names
from tests.unit.dev.clusterjob.kubectl_stand_in import kubectl_that_lags


def job(**attempt: Any) -> dict[str, Any]:
    status = {"state": "Finished" if "outcome" in attempt else "Running", "attempt": attempt}
    return {"metadata": {"name": "job", "generation": 1}, "status": status}


def pod(attempt: int) -> dict[str, Any]:
    labels = {names.LABEL_ROLE: names.ROLE_EXECUTOR, names.LABEL_ATTEMPT: str(attempt)}
    return {"metadata": {"name": "executor", "labels": labels}}


def added(found: dict[str, Any]) -> str:
    return json.dumps({"type": "ADDED", "object": found})


def test_the_status_is_that_of_now(tmp_path: Path) -> None:
    kubectl = kubectl_that_lags(tmp_path, watched=added(job(id=1)), now=json.dumps(job(id=2, outcome="Finished")))
    with LiveJob(kubectl, "job") as live:
        live.wait("Running", lambda status: status.get("state") == "Running", seconds=5)
        assert live.status["attempt"] == {"id": 2, "outcome": "Finished"}
        assert live.attempt == 2


def test_the_pods_are_those_of_now(tmp_path: Path) -> None:
    now = {**job(id=2), "items": [pod(1), pod(2)]}  # the answer to both questions
    kubectl = kubectl_that_lags(tmp_path, watched=added(job(id=1)), now=json.dumps(now))
    with LiveJob(kubectl, "job") as live:
        assert live.pods(names.ROLE_EXECUTOR) == [pod(2)]
