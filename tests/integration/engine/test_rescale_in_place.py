"""A running attempt of the continuous engine gets another number of subtasks, on a real Spark with executors."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob, produce, settings_of_a_cluster
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

RECORDS = 2000
_MOMENT_SECONDS = 30.0
"""Less than the broker gives a transaction that nobody ends."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local cluster that begins with four executors, whatever is asked for, each with a place for a task."""
    for name, value in settings_of_a_cluster(tmp_path, master="local-cluster[4,1,1024]").items():
        monkeypatch.setenv(name, value)


class Rescaled:
    """A job whose driver is asked by a file."""

    def __init__(self, job: LocalJob, broker: str, folder: Path) -> None:
        self.job, self.broker, self.file = job, broker, folder / "scale"
        self.expected = 0

    def start(self) -> None:
        self.job.start(fault=f"scale:{self.file}")
        self.read_more()

    def ask(self, parallelism: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{parallelism} {parallelism}")
        new.rename(self.file)

    def write(self, records: int) -> None:
        produce(self.broker, self.job.spec.source.topics[0], self.expected, records)
        self.expected += records

    def read_more(self) -> None:
        self.write(RECORDS)
        self.job.await_records_in(self.expected)

    def scale(self, parallelism: int) -> None:
        self.ask(parallelism)
        self.await_parallelism(parallelism)
        self.read_more()
        found = self.job.document()
        assert found is not None
        assert found.parallelism == parallelism

    def await_parallelism(self, parallelism: int) -> None:
        self.job.await_document(lambda document: document.parallelism == parallelism, f"parallelism {parallelism}")

    def up_and_down(self) -> None:
        """With the loss of an executor, which Spark replaces."""
        self.scale(4)
        os.kill(min(self.job.executors()), signal.SIGKILL)
        self.read_more()
        self.scale(1)
        self.scale(3)

    def judge(self, client: TransactionClient) -> None:
        assert self.job.drain() == 0, self.job.log()
        found = visibility.numbers(self.broker, self.job.spec.sink.topic)
        assert sorted(found) == list(range(self.expected))
        assert visibility.open_transactions(client, self.job.spec.sink.transactional_id_prefix) == []

    def judge_while_it_runs(self, client: TransactionClient) -> None:
        """The same of an attempt that has read all: its own last transactions end in a moment."""
        deadline = Deadline.after(_MOMENT_SECONDS)
        while visibility.open_transactions(client, self.job.spec.sink.transactional_id_prefix):
            assert not deadline.expired, self.job.log()
            time.sleep(0.1)
        found = visibility.numbers(self.broker, self.job.spec.sink.topic)
        assert sorted(found) == list(range(self.expected))


@pytest.mark.usefixtures("cluster")
def test_up_and_down_and_a_killed_driver_is_followed_by_an_attempt_with_every_id(
    local_job: LocalJobs, broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    """The first attempt has ids by subtask and slot, and the second the other naming; both go up and down.

    Without room the second attempt runs on, and can be asked to stay.
    """
    job = local_job(engine=Engine.CONTINUOUS, max_offsets=500, transaction_naming=TransactionNaming.SUBTASK_AND_SLOT)
    rescaled = Rescaled(job, broker, tmp_path)
    rescaled.start()
    rescaled.up_and_down()
    rescaled.ask(4)
    rescaled.write(5 * RECORDS)  # checkpoints enough for a kill in the middle of them
    rescaled.await_parallelism(4)
    job.kill()
    job.spec = replace(job.spec, sink=replace(job.spec.sink, transaction_naming=TransactionNaming.HINT))
    job.start(fault=f"scale:{rescaled.file}", parallelism=4)
    job.await_records_in(rescaled.expected)
    rescaled.judge_while_it_runs(client)

    rescaled.scale(2)
    rescaled.ask(5)
    rescaled.read_more()
    rescaled.read_more()
    found = job.document()
    assert found is not None
    assert found.parallelism == 2, "the cluster has four places"
    rescaled.ask(2)
    rescaled.read_more()
    rescaled.scale(3)
    rescaled.judge(client)


def test_two_waves_on_one_executor_write_their_own_dead_letters(
    local_job: LocalJobs, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings_of_a_cluster(tmp_path, master="local[4,4]").items():
        monkeypatch.setenv(name, value)
    code = tmp_path / "code"
    code.mkdir()
    (code / "keys.py").write_text("def only(batch):\n    return batch.select(['key']).rename_columns(['value'])\n")
    job = local_job(
        engine=Engine.CONTINUOUS, transform=Transform(arrow=ArrowTransform(function="keys:only")), code=code,
        on_record_error=OnRecordError.DEAD_LETTER, value_format=Format.JSON, value_schema="n BIGINT", max_offsets=100,
    )  # fmt: skip
    rescaled = Rescaled(job, broker, tmp_path)
    rescaled.start()
    rescaled.scale(4)
    for _ in range(3):
        rescaled.read_more()
    log = job.log(100_000)
    assert job.drain() == 0, job.log()
    assert "tries again" not in log
    letters = visibility.numbers(broker, job.spec.record_errors.dead_letter_topic)
    assert sorted(letters) == list(range(rescaled.expected)), "a number is no JSON object"
