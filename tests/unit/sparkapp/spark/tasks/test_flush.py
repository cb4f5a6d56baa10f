"""Refused records in the answers of write tasks, and the rounds in which every worker flushes."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.errors import AuthorizationFailed, KafkaSparkJobError, PreCommitFailed
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import Job
from sparkapp.spark.failures import printed
from sparkapp.spark.tasks import flush as delivery
from sparkapp.spark.tasks.write_task import WriteResult, decode_result, encode_result
from tests.support.jobs.plain_job import plain_spec

JOB = Job(
    namespace="ns", name="job", uid="u", generation=1, attempt=1,
    spec=plain_spec(kafka=KafkaCluster(bootstrap_servers="none:1"), parallelism=2),
)  # fmt: skip


def test_nothing_is_raised_where_no_task_has_a_failure() -> None:
    delivery.require_delivered(["", ""])


@pytest.mark.parametrize("error", [PreCommitFailed("3 records failed"), AuthorizationFailed("no right to write")])
def test_a_tasks_failure_comes_out_of_its_answer_as_what_it_was(error: KafkaSparkJobError) -> None:
    result = WriteResult(index=0, records=1, dead_letters=0, committable=None, failure=printed(error))
    answer = decode_result(encode_result(result), {}.__getitem__)
    with pytest.raises(type(error)) as caught:
        delivery.require_delivered(["", answer.failure])
    assert caught.value.message == error.message
    assert ("not written again" in caught.value.remedy) == isinstance(error, PreCommitFailed)


class Executors:
    """A session whose executors give each task the worker that has been idle longest."""

    def __init__(self, *sizes: int) -> None:
        self.idle = [deque(range(size)) for size in sizes]
        self.asked: list[tuple[int, int]] = []
        self.failure = ""
        self.sparkContext = SimpleNamespace(cancelAllJobs=lambda: None)

    def range(self, start: int, stop: int, step: int, partitions: int) -> Executors:
        self.tasks = partitions
        return self

    def mapInArrow(self, task: Callable[..., object], schema: str) -> Executors:
        return self

    def collect(self) -> list[Any]:
        rows = []
        for task in range(self.tasks):
            executor = task % len(self.idle)
            worker = self.idle[executor].popleft()
            self.idle[executor].append(worker)
            self.asked.append((executor, worker))
            answer = {"executor": f"host/{executor}", "worker": worker, "failure": self.failure}
            rows.append(SimpleNamespace(result=json.dumps(answer)))
        return rows


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def make(*sizes: int) -> Executors:
        made = Executors(*sizes)
        monkeypatch.setattr(delivery, "count_executors", lambda _: len(made.idle))
        return made

    return make


@pytest.mark.parametrize("sizes", [(1,), (4,), (5,), (2, 7), (4, 1, 3)])
def test_every_worker_is_asked(sizes: tuple[int, ...], executors: Callable[..., Any]) -> None:
    session = executors(*sizes)
    delivery.flush_workers(session, JOB)
    assert set(session.asked) == {(executor, worker) for executor, size in enumerate(sizes) for worker in range(size)}


def test_without_an_executor_there_is_nobody_to_ask(executors: Callable[..., Any]) -> None:
    session = executors()
    delivery.flush_workers(session, JOB)
    assert session.asked == []


def test_a_record_that_was_refused_is_reported(executors: Callable[..., Any]) -> None:
    session = executors(2)
    session.failure = printed(PreCommitFailed("1 records failed"))
    with pytest.raises(PreCommitFailed, match="1 records failed"):
        delivery.flush_workers(session, JOB)


def test_an_executor_that_never_answers_is_reported(
    executors: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = executors(2)
    monkeypatch.setattr(delivery, "count_executors", lambda _: 2)
    monkeypatch.setattr(delivery, "_SECONDS", 0.05)
    with pytest.raises(PreCommitFailed, match="not every worker"):
        delivery.flush_workers(session, JOB)
