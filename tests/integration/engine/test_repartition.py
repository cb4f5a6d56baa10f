"""Query state is divided again at a rescale: killed at any step, readers see what plain Python computes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.sections.transform import OutputMode, Transform
from sparkapp.model.job.spark_settings import PROVIDER
from sparkapp.model.job.spec import FOLLOW_PARALLELISM
from sparkapp.model.names import SPARK_CONF_KEY
from sparkapp.spark.state.query_log import EngineState, decode_engine
from sparkapp.spark.state.rocksdb_files import missing_tables
from tests.integration.engine.conftest import LocalJobs
from tests.integration.engine.test_stateful import TOTAL, judge, read_in_two, stateful_job
from tests.support.jobs.local_job import START_SECONDS, LocalJob, produce, settings_of_a_cluster
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

__all__ = ["stateful_job"]

COUNTS = Transform(
    sql="SELECT key, concat_ws(' ', CAST(key AS STRING), count(*), sum(CAST(CAST(value AS STRING) AS BIGINT))) AS value"
    " FROM source GROUP BY key",
    output_mode=OutputMode.UPDATE,
)


def follows(job: LocalJob) -> LocalJob:
    job.spec = replace(job.spec, state_claim="on-this-disk", state_partitions=FOLLOW_PARALLELISM)
    return job


def state_of(job: LocalJob) -> tuple[int, int, EngineState]:
    """The document's checkpoint, its records so far, and the engine's part."""
    document = job.document()
    assert document is not None
    return document.checkpoint_id, document.counters.records_in, decode_engine(document.engine)


def versions(folder: Path, version: int) -> list[str]:
    """The partitions that have a whole version of their own."""
    return sorted(str(file.parent.relative_to(folder / "state")) for file in (folder / "state").rglob(f"{version}.zip"))


def test_state_follows_the_parallelism_through_kills_at_every_step(
    stateful_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    """Parallelism 2, 5, 1 of a windowed count, a deduplication and a join in one query."""
    job, wanted = follows(stateful_job[0]), stateful_job[1]
    job.start(parallelism=2, fault="after-write@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    assert state_of(job)[:2] == (2, 600)

    written = []
    for fault in ("repartition:before@2", "repartition:within@3", "after-flush@attempt=4,checkpoint=3"):
        job.start(parallelism=5, fault=fault)
        assert job.await_end() == -signal.SIGKILL, job.log()
        checkpoint, records, engine = state_of(job)
        assert (checkpoint, records, engine.state_partitions, engine.attempt) == (2, 600, 2, 1), fault
        written.append(versions(tmp_path / "query" / f"attempt-{job.attempt}", 3))
    assert written[0] == []
    assert 0 < len(written[1]) < len(written[2]), "some partitions of the new version, and then all"

    job.start(fault="after-write@attempt=5,checkpoint=3")
    assert job.await_end() == -signal.SIGKILL, job.log()
    checkpoint, records, engine = state_of(job)
    assert (checkpoint, records, engine.state_partitions, engine.attempt) == (3, 600, 5, 5)

    job.start(fault="before-flush@attempt=6,checkpoint=4")
    assert job.await_end() == -signal.SIGKILL, job.log()
    assert state_of(job)[:2] == (3, 600), "nothing is divided again, and the batch is run again"
    job.start(fault="after-write@attempt=7,checkpoint=4")
    assert job.await_end() == -signal.SIGKILL, job.log()
    assert state_of(job)[:2] == (4, 900)

    read_in_two(job, TOTAL - 900)
    job.start(parallelism=1)
    job.await_checkpoint(6)
    assert state_of(job)[2].state_partitions == 1
    document = job.await_records_in(TOTAL)
    job.await_checkpoint(document.checkpoint_id + 1)
    assert job.drain() == 0, job.log()
    judge(job, client, broker, wanted)
    report = job.report()
    assert report is not None
    told = [event.message for event in report.events if event.reason == DriverEvent.STATE_REPARTITIONED]
    assert [message.partition(";")[0] for message in told] == [
        "query state has 1 partitions instead of 5 from checkpoint 5 on"
    ]
    snapshots = list((tmp_path / "query" / f"attempt-{job.attempt}" / "state").rglob("*.zip"))
    assert not [gap for snapshot in snapshots for gap in missing_tables(snapshot)]
    shutil.rmtree(next(snapshot.parent / "SSTs" for snapshot in snapshots if (snapshot.parent / "SSTs").is_dir()))
    assert [gap for snapshot in snapshots for gap in missing_tables(snapshot)], "Spark's own form is understood"


def await_stopped(pid: int) -> None:
    deadline = Deadline.after(START_SECONDS)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "T":
        assert not deadline.expired, f"process {pid} still runs"
        time.sleep(0.1)


def counts(broker: str, job: LocalJob) -> dict[str, str]:
    """The last row of each key; none is written twice."""
    rows = [(value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic)]
    assert len(rows) == len(set(rows)), "repeated"
    found: dict[str, tuple[int, str]] = {}
    for row in rows:
        key, _, rest = row.partition(" ")
        found[key] = max(found.get(key, (0, "")), (int(rest.partition(" ")[0]), rest))
    return {key: last for key, (_, last) in found.items()}


def expected_counts(numbers: range) -> dict[str, str]:
    keys = {str(number % 97): [each for each in numbers if each % 97 == number % 97] for number in numbers}
    return {key: f"{len(of_key)} {sum(of_key)}" for key, of_key in keys.items()}


def test_a_driver_that_stood_still_behind_its_repartition_harms_nothing(
    local_job: LocalJobs, make_topic: Callable[..., str], broker: str, client: TransactionClient
) -> None:
    topic = make_topic(2, "in")
    job = follows(local_job(topic=topic, transform=COUNTS, stateful=True))
    produce(broker, topic, 0, 500)
    job.start(parallelism=2)
    job.await_records_in(500)
    assert job.drain() == 0, job.log()

    job.start(parallelism=3, fault="repartition:frozen@2")
    late = job.process
    assert isinstance(late, subprocess.Popen)
    await_stopped(late.pid)
    job.process = None
    job.start(parallelism=3, alone=True)
    produce(broker, topic, 500, 500)
    job.await_records_in(1000)
    late.send_signal(signal.SIGCONT)
    late.wait(120)
    ended = job.folder / "termination-2"
    assert json.loads(ended.read_text())["reason"] == "Superseded", ended.read_text()
    produce(broker, topic, 1000, 500)
    job.await_records_in(1500)
    assert job.drain() == 0, job.log()
    assert counts(broker, job) == expected_counts(range(1500))
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_state_of_the_provider_in_memory_goes_on_and_is_not_divided(
    local_job: LocalJobs,
    make_topic: Callable[..., str],
    broker: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job of a release whose default it was: its log keeps the provider."""
    topic = make_topic(2, "in")
    job = local_job(topic=topic, transform=COUNTS, stateful=True)
    produce(broker, topic, 0, 300)
    hdfs = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    with monkeypatch.context() as earlier:
        for name, value in settings_of_a_cluster(tmp_path, master="local[2]", **{PROVIDER: hdfs}).items():
            earlier.setenv(name, value)
        job.start(parallelism=2, alone=True)
        job.await_records_in(300)
        assert job.drain() == 0, job.log()
    (tmp_path / SPARK_CONF_KEY).unlink()
    assert state_of(job)[2].provider == hdfs

    produce(broker, topic, 300, 300)
    job.start(parallelism=3)
    job.await_records_in(600)
    assert job.drain() == 0, job.log()
    assert (state_of(job)[2].provider, state_of(job)[2].state_partitions) == (hdfs, 2)
    assert counts(broker, job) == expected_counts(range(600))

    follows(job).start(parallelism=3)
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "RepartitionRefused"
    assert "HDFSBackedStateStoreProvider cannot be repartitioned" in termination.message
    job.spec = replace(job.spec, state_partitions="")
    produce(broker, topic, 600, 300)
    job.start()
    job.await_records_in(900)
    assert job.drain() == 0, job.log()
    assert counts(broker, job) == expected_counts(range(900))
