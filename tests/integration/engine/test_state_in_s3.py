"""Operators that keep state in an object store, through kills, rescales and faults of the store.

Readers see what plain Python computes from the input. The store answers real HTTP; a way to it has the faults.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster.machine.ports import free_ports
from localcluster.objectstore.client import StoreClasses
from localcluster.objectstore.server import BUCKET, ObjectStoreServer
from localcluster.progress import Progress
from localcluster.settings import Settings
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model import names
from sparkapp.model.job.sections.state_storage import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, S3Storage
from sparkapp.model.job.spec import FOLLOW_PARALLELISM
from sparkapp.spark.state.object_store.store import ObjectStore
from tests.integration.engine.test_stateful import (
    TOTAL,
    await_written,
    begins_with_a_snapshot,
    goes_back,
    judge,
    read_in_two,
    stateful_job,
)
from tests.support.jobs.local_job import LocalJob, settings_of_a_cluster
from tests.support.object_store.faulty_way import Fault, FaultyWay

pytestmark = pytest.mark.spark

__all__ = ["stateful_job"]


@pytest.fixture
def way(tmp_path: Path) -> Iterator[FaultyWay]:
    with ObjectStoreServer(tmp_path) as server, FaultyWay(server.port, own=free_ports(1)[0]) as made:
        yield made


@pytest.fixture
def stored_job(
    stateful_job: tuple[LocalJob, Counter[str]], way: FaultyWay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[LocalJob, Counter[str]]:
    """The job of the tests with a volume, with its state in the store."""
    job, wanted = stateful_job
    job.stateful = False
    settings = Settings.from_environment()
    classes = StoreClasses.of(settings)
    classes.fetch(settings, Progress())
    paths = {f"spark.{role}.extraClassPath": classes.class_path for role in ("driver", "executor")}
    variables = settings_of_a_cluster(tmp_path, master="local[3]", **paths)
    for name, value in {**variables, ACCESS_KEY_VARIABLE: "user", SECRET_KEY_VARIABLE: "of a test"}.items():
        monkeypatch.setenv(name, value)
    storage = S3Storage(bucket=BUCKET, prefix="jobs", endpoint=way.endpoint, path_style_access=True)
    job.spec = replace(job.spec, state_s3=storage, state_partitions=FOLLOW_PARALLELISM)
    return job, wanted


def test_state_in_a_store_continues_through_kills_and_rescales(
    stored_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient
) -> None:
    """Parallelism 2, 3, 1, each divides the state again. Killed before a document, and before the commits behind it."""
    job, wanted = stored_job
    job.start(fault="after-flush@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    assert (document.checkpoint_id, document.counters.records_in, document.engine_has_state) == (1, 300, True)

    read_in_two(job, TOTAL - 300)
    job.start(parallelism=3, fault="after-write@attempt=2,checkpoint=4")
    assert job.await_end() == -signal.SIGKILL, job.log()
    job.start(parallelism=1, alone=True)
    job.await_checkpoint(6)
    await_written(broker, job, wanted)
    assert job.drain() == 0, job.log()
    judge(job, client, broker, wanted)
    assert job.spec.state_s3 is not None
    assert ObjectStore.of(job.spec.state_s3, job.uid).folders() == ["attempt-2", "attempt-3", "retained"]


def test_a_driver_that_was_replaced_resumes_and_changes_nothing(
    stored_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient
) -> None:
    """It stands still behind a checkpoint, with its JVM, and writes the next version when its successor has it."""
    frozen, wanted = stored_job
    frozen.start(alone=True)
    frozen.await_checkpoint(1)
    frozen.signal_session(signal.SIGSTOP)
    job = replace(frozen, process=None)
    try:
        job.start(alone=True)
        job.await_checkpoint(2)
        frozen.signal_session(signal.SIGCONT)
        assert frozen.await_end() == 1, frozen.log()
        job.await_records_in(TOTAL)
        await_written(broker, job, wanted)
        assert job.drain() == 0, job.log()
    finally:
        job.kill()
    judge(job, client, broker, wanted)


def test_a_job_goes_back_to_an_earlier_checkpoint_with_its_state_in_the_store(
    stored_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient
) -> None:
    job, wanted = stored_job
    restored = goes_back(job, wanted, broker, client)
    assert (restored.attempt, restored.retained) == (2, None), "its attempt has a copy"


def test_another_job_begins_with_the_state_of_a_snapshot_in_the_store(
    stored_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    job, wanted = stored_job
    begins_with_a_snapshot(job, wanted, broker, client, sink_topic=make_topic(4, "clone"))


def test_faults_of_the_store_lose_nothing_and_end_an_attempt_that_names_it(
    stored_job: tuple[LocalJob, Counter[str]], way: FaultyWay, broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    """Uploads that are cut and answers that are lost are sent again. A store that stays away ends the attempt.

    Two executors are processes of their own, as in a cluster. The driver sees what they write by the store alone.
    """
    job, wanted = stored_job
    conf = tmp_path / names.SPARK_CONF_KEY
    conf.write_text(json.dumps({**json.loads(conf.read_text()), "spark.master": "local-cluster[2,1,1024]"}))
    job.start(alone=True)
    for fault in (Fault.CUT, Fault.THROTTLED, Fault.UNANSWERED, Fault.SLOW):
        way.strike(fault, 3)
    job.await_checkpoint(1)
    way.fail(Fault.AWAY)
    assert job.await_end() == 1, job.log()
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("StateStoreUnusable", False), termination
    way.heal()
    job.start(alone=True)
    job.await_records_in(TOTAL)
    await_written(broker, job, wanted)
    assert job.drain() == 0, job.log()
    judge(job, client, broker, wanted)
