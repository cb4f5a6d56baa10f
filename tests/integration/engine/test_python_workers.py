"""kill -9 of the Python workers while they write: no new attempt, Spark tries their tasks again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, LocalJob, produce, settings_of_a_cluster, signal_all
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

RECORDS = 3000
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
SLOWLY = "SELECT key, value FROM source WHERE reflect('java.lang.Thread', 'sleep', 2L) = 'null'"
"""Three seconds for a task's records, so that it can be met while it writes."""


IN_TWO_HALVES = """
import os, pathlib, time

def in_two_halves(batch):
    with (pathlib.Path(__file__).parent / "workers").open("a") as file:
        file.write(f"{os.getpid()} ")
    half = batch.num_rows // 2
    yield batch.slice(0, half)
    if (pathlib.Path(__file__).parent / "slow").exists():
        time.sleep(1.5)
    yield batch.slice(half)
"""


@pytest.fixture
def tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are tried four times, as in a cluster; local Spark gives up at the first failure by default."""
    for name, value in settings_of_a_cluster(tmp_path, master="local[2,4]", **{_BATCH: "100"}).items():
        monkeypatch.setenv(name, value)


def test_python_workers_killed_while_they_write(
    tried_again: None, local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(transform=Transform(sql=SLOWLY))
    prefix = job.spec.sink.transactional_id_prefix
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start(alone=True)
    begun = _await_open(client, prefix, job)
    killed = job.workers()
    assert killed
    signal_all(killed, signal.SIGKILL)
    job.await_records_in(RECORDS)
    ended = {row.transactional_id for row in client.list_transactions(prefix)}
    assert begun <= ended, "the task that is tried again writes under the same ids"
    assert not killed & job.workers()
    assert job.drain() == 0, job.log()
    assert job.attempt == 1
    assert visibility.open_transactions(client, prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(RECORDS))


def test_workers_of_the_continuous_engine_killed_and_frozen(
    tried_again: None, local_job: LocalJobs, broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    """With two under way, a checkpoint is written and not committed, and the subtasks are in the next (ADR 50).

    Spark starts the subtasks' tasks again; they connect to the driver and are given what was not answered. The driver
    finds frozen workers by their silence, and the job continues before they thaw.
    """
    (tmp_path / "slow.py").write_text(IN_TWO_HALVES)
    slowly = Transform(arrow=ArrowTransform(function="slow:in_two_halves"))
    hold, slow = tmp_path / "hold", tmp_path / "slow"
    job = local_job(engine=Engine.CONTINUOUS, max_offsets=200, transform=slowly, code=tmp_path)
    prefix = job.spec.sink.transactional_id_prefix
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    slow.touch()
    job.start(fault=f"hold:{hold}")
    job.await_records_in(1)
    for first, then in ((signal.SIGKILL, None), (signal.SIGSTOP, signal.SIGCONT)):
        hold.with_suffix(".held").unlink(missing_ok=True)
        hold.touch()
        final = _await_two_checkpoints(client, prefix, hold.with_suffix(".held"), job)
        workers = _alive(tmp_path / "workers")
        assert len(workers) == job.spec.parallelism
        signal_all(workers, first)
        (tmp_path / "workers").unlink()
        hold.unlink()
        if then is not None:
            _await_commits(client, prefix, final, job)
            signal_all(workers, then)
        job.await_checkpoint(final.checkpoint_id + 2)
        assert (_alive(tmp_path / "workers") == workers) == (then is not None)
    slow.unlink()
    job.await_records_in(RECORDS)

    produce(broker, job.spec.source.topics[0], RECORDS, RECORDS)
    before = job.await_records_in(RECORDS + 1)
    killed = job.workers()
    assert killed
    signal_all(killed, signal.SIGKILL)
    after = job.await_records_in(2 * RECORDS)
    assert after.checkpoint_id > before.checkpoint_id + 1, "the kill came before the last checkpoint"
    frozen = job.workers()
    assert not killed & frozen
    assert len(frozen) == job.spec.parallelism
    silent = job.log(10_000).count("has been silent for 10 s")
    signal_all(frozen, signal.SIGSTOP)
    produce(broker, job.spec.source.topics[0], 2 * RECORDS, RECORDS)
    job.await_records_in(3 * RECORDS)
    signal_all(frozen, signal.SIGCONT)
    assert job.log(10_000).count("has been silent for 10 s") > silent
    assert job.drain() == 0, job.log()
    assert job.attempt == 1
    assert visibility.open_transactions(client, prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(3 * RECORDS))


def _await_two_checkpoints(client: TransactionClient, prefix: str, held: Path, job: LocalJob) -> CheckpointDocument:
    """The document, once its transactions wait for their commits and others have begun."""
    deadline = Deadline.after(START_SECONDS)
    while not held.exists():
        assert not deadline.expired, job.log()
        time.sleep(0.02)
    document = job.document()
    assert document is not None
    while not _open_ids(client, prefix) > _ids(document):
        assert not deadline.expired, job.log()
        time.sleep(0.02)
    return document


def _await_commits(client: TransactionClient, prefix: str, final: CheckpointDocument, job: LocalJob) -> None:
    """Until the document's transactions are committed, while the subtasks stand still."""
    deadline = Deadline.after(START_SECONDS)
    while _ids(final) & _open_ids(client, prefix):
        assert not deadline.expired, job.log()
        time.sleep(0.02)


def _alive(file: Path) -> set[int]:
    """The workers that have called the function, as they are noted in the file, without those that have ended."""
    return {int(pid) for pid in file.read_text().split() if Path(f"/proc/{pid}").exists()}


def _ids(document: CheckpointDocument) -> set[str]:
    return {each.transactional_id for each in document.committables}


def _open_ids(client: TransactionClient, prefix: str) -> set[str]:
    rows = client.list_transactions(prefix)
    return {row.transactional_id for row in rows if row.state.open} - {offsets_id(prefix)}


def _await_open(client: TransactionClient, prefix: str, job: LocalJob) -> set[str]:
    """The ids under which subtasks have something open, once there is one; the driver marks offsets before."""
    deadline = Deadline.after(START_SECONDS)
    while not (begun := _open_ids(client, prefix)):
        assert not deadline.expired, job.log()
        time.sleep(0.02)
    return begun
