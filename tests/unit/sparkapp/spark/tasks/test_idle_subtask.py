"""A subtask that waits for its first work: what it opens meanwhile, so that nobody waits for that later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.job.spec import Engine, Job
from sparkapp.spark.tasks import subtask as module
from sparkapp.spark.tasks import worker_clients
from tests.support.jobs.plain_job import plain_spec

JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=2,
    spec=plain_spec(engine=Engine.CONTINUOUS, parallelism=1),
)  # fmt: skip


@pytest.mark.parametrize("fails", [False, True])
def test_function_and_consumer_are_opened_before_the_first_work(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """An import that fails is raised again with the work, whose answer reports it."""
    steps: list[str] = []

    def opens() -> None:
        steps.append("function")
        if fails:
            raise ImportError("nowhere")

    def no_work() -> None:
        steps.append("waits")

    transform = SimpleNamespace(open=opens, close=lambda: None)
    monkeypatch.setattr(module, "transform_of", lambda *_: transform)
    monkeypatch.setattr(module, "Inbox", lambda *_, **__: SimpleNamespace(next_work=no_work))
    monkeypatch.setattr(worker_clients, "consumer_for", lambda _: steps.append("consumer"))
    monkeypatch.setattr(worker_clients, "opened_producers", lambda _: None)
    channel: Any = SimpleNamespace(stopped=lambda _: steps.append("stopped"))
    module._run_two_phase(JOB, channel, subtask=0)
    assert steps == ["function", *([] if fails else ["consumer"]), "waits", "stopped"]
