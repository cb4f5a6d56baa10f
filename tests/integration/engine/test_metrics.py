"""A running job's metrics against the brokers, and the same numbers in Spark's own progress reports."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from localcluster.machine.ports import free_ports
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from sparkapp.model.partition import TopicPartition
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, LocalJob, produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

_MODULE = """
from pyspark.sql.streaming import StreamingQueryListener

class Listener(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event): pass
    def onQueryProgress(self, event):
        with open("{progress}", "a") as file:
            file.write(event.progress.sources[0].latestOffset + "\\n")

def watched(source):
    source.sparkSession.streams.addListener(Listener())
    return source.select("key", "value")
"""


def scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        sample.name + "".join(f",{key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def awaited(job: LocalJob, port: int, **values: float) -> dict[str, float]:
    """The metrics, once those named have these values."""
    end = time.monotonic() + START_SECONDS
    while True:
        found = scraped(port)
        if all(found.get(f"kafkaspark_{name}") == value for name, value in values.items()):
            return found
        assert time.monotonic() < end, f"{found}\n{job.log()}"
        time.sleep(0.2)


def test_S37_metrics_and_progress_say_what_the_brokers_say(
    local_job: LocalJobs, broker: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    code, progress = tmp_path / "code", tmp_path / "progress"
    code.mkdir()
    (code / "watch.py").write_text(_MODULE.replace("{progress}", str(progress)))
    topic = make_topic(3, "in_1.a-b")
    job = local_job(topic=topic, transform=Transform(function="watch:watched"), code=code, max_offsets=1000)
    (port,) = free_ports(1)
    job.spec = replace(job.spec, metrics_port=port)
    produce(broker, topic, 0, 4000)
    job.start()  # new code has new workers: totals of Kafka clients are the worker process's
    job.await_records_in(4000)
    found = awaited(job, port, source_records_in_total=4000, source_pending_records=0)
    view = KafkaClusterView({"bootstrap.servers": broker, "group.id": job.spec.source.group_id}, read_committed=True)
    offsets = view.committed(TopicPartition(topic, number) for number in range(3))
    view.close()
    assert len(offsets) == 3
    for partition, offset in offsets.items():
        where = f"partition={partition.partition},topic={topic}"
        assert found[f"kafkaspark_source_current_offset,{where}"] == offset
        assert found[f"kafkaspark_source_committed_offset,{where}"] == offset
        assert found[f"kafkaspark_source_records_lag,{where}"] == 0
    document = job.document()
    assert document is not None
    assert found["kafkaspark_sink_records_out_total"] == 4000
    assert found["kafkaspark_checkpoint_last_completed_id"] == document.checkpoint_id
    assert found["kafkaspark_checkpoints_completed_total"] == document.checkpoint_id >= 4
    assert found["kafkaspark_source_commits_succeeded_total"] == document.checkpoint_id
    assert found["kafkaspark_source_commits_failed_total"] == 0
    committed = document.counters.transactions_committed
    assert found["kafkaspark_sink_transactions_committed_total"] == committed
    assert found["kafkaspark_client_produced_records_total"] == 4000
    assert found["kafkaspark_client_flushes_total"] >= 4
    assert 0 < found["kafkaspark_checkpoint_last_duration_seconds"] < 60
    assert found["kafkaspark_checkpoint_last_size_bytes"] > 100
    assert job.drain() == 0
    with pytest.raises(OSError, match="refused"):
        scraped(port)
    reports = [json.loads(line) for line in progress.read_text().splitlines()]
    assert {1000, 2000, 3000} & {report.get("pendingRecords") for report in reports}, (
        "a backlog was seen while it was worked off"
    )
    # Counters are the attempt's and include transactions of previous attempts that it committed.
    job.start()
    produce(broker, topic, 4000, 100)
    job.await_records_in(4100)
    again = awaited(job, port, source_records_in_total=100, source_pending_records=0)
    assert again["kafkaspark_sink_records_out_total"] == 100
    assert again["kafkaspark_checkpoint_last_completed_id"] > found["kafkaspark_checkpoint_last_completed_id"]
    assert job.drain() == 0


def test_a_port_that_is_taken_does_not_stop_the_job(local_job: LocalJobs, broker: str) -> None:
    job = local_job()
    produce(broker, job.spec.source.topics[0], 0, 100)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        job.spec = replace(job.spec, metrics_port=taken.getsockname()[1])
        job.start()
        job.await_records_in(100)
        assert "metrics cannot be served" in job.log(1000)
        assert job.drain() == 0


_LATE = """
def distinct(source):
    rows = source.withWatermark("timestamp", "10 seconds").dropDuplicates(["key", "timestamp"])
    return rows.select("key", "value")
"""


def test_rows_that_an_operator_drops_as_late_are_counted(local_job: LocalJobs, broker: str, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "late.py").write_text(_LATE)
    job = local_job(transform=Transform(function="late:distinct"), code=code, stateful=True)
    (port,) = free_ports(1)
    job.spec = replace(job.spec, metrics_port=port)
    topic, start = job.spec.source.topics[0], 1_700_000_000_000
    produce(broker, topic, 0, 10, timestamp=start + 1_000_000)
    job.start()
    job.await_records_in(10)
    produce(broker, topic, 10, 10, timestamp=start + 1_000_001)
    job.await_records_in(20)
    produce(broker, topic, 20, 5, timestamp=start)
    job.await_records_in(25)
    awaited(job, port, source_records_in_total=25, source_late_records_dropped_total=5)
    assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(20))


_ON_TIME = """
import pyarrow as pa
import pyarrow.compute as pc

def on_time(batch, context):
    if context.watermark is None:
        return batch
    late = pc.less_equal(batch.column("timestamp"), context.watermark)
    text = pc.binary_join_element_wise(pc.if_else(late, "late ", ""), batch.column("value").cast(pa.string()), "")
    return batch.set_column(1, "value", text)
"""


def test_watermarks_by_partition_subtask_and_job(local_job: LocalJobs, broker: str, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "marks.py").write_text(_ON_TIME)
    job = local_job(
        engine=Engine.CONTINUOUS, max_out_of_orderness_seconds=5, idle_timeout_seconds=2, max_drift_seconds=60,
        max_offsets=20, code=code, transform=Transform(arrow=ArrowTransform(function="marks:on_time")),
    )  # fmt: skip
    (port,) = free_ports(1)
    job.spec = replace(job.spec, metrics_port=port)
    topic, start = job.spec.source.topics[0], 1_700_000_000

    def write(number: int, seconds: int) -> None:
        """One record in a partition."""
        produce(broker, topic, number, 1, partition=number, timestamp=(start + seconds) * 1000)

    def watermark(seconds: int) -> float:
        return ((start + seconds) * 1000 - 5001) / 1000

    def of(number: int, what: str) -> str:
        return f"source_partition_{what},partition={number},topic={topic}"

    for number, seconds in ((0, 100), (1, 200), (2, 300), (0, 96)):
        write(number, seconds)
    job.start()
    job.await_records_in(4)
    found = awaited(job, port, **{of(3, "idle"): 1})
    assert [found[f"kafkaspark_{of(number, 'watermark_seconds')}"] for number in range(3)] == [
        watermark(100), watermark(200), watermark(300),
    ]  # fmt: skip
    for number in range(3):  # of one time: any of them may become idle before the others
        write(number, 400)
    awaited(job, port, source_records_in_total=7, watermark_seconds=watermark(400))
    write(3, 50)
    found = awaited(job, port, **{of(3, "watermark_seconds"): watermark(50)})
    assert found["kafkaspark_watermark_seconds"] == watermark(400), "it does not go back"
    for subtask in range(2):
        assert found[f"kafkaspark_source_subtask_watermark_seconds,subtask={subtask}"] == watermark(400)

    # A backlog of partition 0, many checkpoints long, and a record of partition 1 that is too far ahead of it.
    awaited(job, port, **{of(1, "idle"): 1})
    produce(broker, topic, 0, 400, partition=0, timestamp=(start + 500) * 1000, value="0")
    write(1, 1000)
    paused: list[dict[str, float]] = []
    end = time.monotonic() + START_SECONDS
    while (found := scraped(port))[f"kafkaspark_{of(1, 'watermark_seconds')}"] != watermark(1000):
        assert time.monotonic() < end, f"{found}\n{job.log()}"
        if found[f"kafkaspark_{of(1, 'paused')}"]:
            paused.append(found)
        time.sleep(0.05)
    assert paused
    assert not any(seen[f"kafkaspark_{of(1, 'idle')}"] for seen in paused)
    assert all(seen[f"kafkaspark_{of(1, 'watermark_seconds')}"] == watermark(400) for seen in paused)
    assert job.drain() == 0, job.log()
    values = sorted((value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic))
    assert Counter(values) == {"0": 403, "1": 3, "2": 2, "late 3": 1}
