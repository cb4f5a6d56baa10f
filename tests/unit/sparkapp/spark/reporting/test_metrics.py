"""What Prometheus reads of a driver: names, values, bounds, and the endpoint."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import chain, count

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters, LocalPart
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.orphans import OpenNow
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import TopicListSubscriber
from sparkapp.source.offsets_initializer import EarliestOffsetsInitializer
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot
from sparkapp.spark.reporting.metrics import MAX_SERIES, DriverCollector, MetricsEndpoint, bounded
from sparkapp.spark.reporting.progress import Progress
from sparkapp.spark.state.query_log import EngineState, encode_engine
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.patience import PATIENCE

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
RESOURCE = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["a"]}, "sink": {"topic": "out"}}
JOB = Job(
    namespace="team", name="orders", uid="uid", generation=1, attempt=3,
    spec=spec_from_resource(RESOURCE, namespace="team", name="orders"),
)  # fmt: skip


def samples(progress: Progress) -> dict[str, float]:
    """Every sample as Prometheus parses it, by name and labels."""
    registry = CollectorRegistry()
    registry.register(DriverCollector(JOB, progress))
    return {
        sample.name + "".join(f",{key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def committable(subtask: int, *ranges: KafkaPartitionSplit) -> KafkaCommittable:
    return KafkaCommittable(
        transactional_id=f"p-{subtask}", producer_id=1, producer_epoch=0, checkpoint_id=8,
        subtask=subtask, records=5, ranges=ranges,
    )  # fmt: skip


def completed(
    checkpoint_id: int,
    *splits: KafkaPartitionSplit,
    committables: tuple[KafkaCommittable, ...] = (),
    counters: Counters | None = None,
    watermark: int = 0,
    evidence: str = "group",
    local: LocalPart | None = None,
) -> Completed:
    engine = encode_engine(EngineState(checkpoint_id, f'{{"batchWatermarkMs":{watermark}}}'))
    document = CheckpointDocument(
        job_uid="uid", attempt=3, checkpoint_id=checkpoint_id, created_at="2026-11-21T12:00:00Z", parallelism=1,
        prefix="p", splits=splits, committables=committables, evidence_group=evidence, engine=engine,
        counters=counters or Counters(), local=local,
    )  # fmt: skip
    return Completed(document=document, bytes=900, write_millis=3, commit_millis=4)


def recovery(**counters: int) -> Recovery:
    document = CheckpointDocument(
        job_uid="uid", attempt=3, checkpoint_id=7, created_at="2026-11-21T11:00:00Z", parallelism=1, prefix="p",
        counters=Counters(**counters),
    )  # fmt: skip
    return Recovery(document=document, version="1", first_start=False, lost=(), committed=2, aborted=1)


def reported_progress(*times: float) -> tuple[Progress, dict[str, object]]:
    """
    :param times: by the clock: of the making, of the start and of each completion; then it advances by seconds.
    """
    report: dict[str, object] = {}
    clock = chain(times, count(1.0))
    return Progress(lambda **fields: report.update(fields), clock=lambda: next(clock)), report


def test_before_anything_is_read_nothing_is_claimed() -> None:
    progress, _ = reported_progress()
    found = samples(progress)
    labels = "attempt=3,delivery_guarantee=ExactlyOnce,job_name=orders,job_namespace=team,parallelism=1"
    assert found[f"kafkaspark_driver_info,{labels}"] == 1
    assert found["kafkaspark_checkpoints_completed_total"] == 0
    absent = ("pending", "lag", "watermark", "duration", "size", "timestamp", "current_offset", "committed_offset")
    assert not [name for name in found if any(word in name for word in absent)]


def test_one_account_feeds_report_and_metrics() -> None:
    progress, report = reported_progress(0, 7, 17)
    progress.recovered(recovery(records_in=1000, records_out=900, transactions_committed=20, transactions_aborted=5))
    split = KafkaPartitionSplit(A0, 40, 100)
    progress.started(completed(7, KafkaPartitionSplit(A0, 40, 40)).document, lambda: {A0: 3, A1: 4})
    counters = Counters(records_in=1060, records_out=950, transactions_committed=21, transactions_aborted=5)
    progress.completed(completed(8, split, committables=(committable(0, split),), counters=counters), 0.25)
    found = samples(progress)
    assert {
        "kafkaspark_source_pending_records": 7,
        "kafkaspark_source_records_lag,partition=0,topic=a": 3,
        "kafkaspark_source_records_lag,partition=1,topic=a": 4,
        "kafkaspark_source_records_lag_max": 4,
        "kafkaspark_source_current_offset,partition=0,topic=a": 100,
        "kafkaspark_source_committed_offset,partition=0,topic=a": 100,
        "kafkaspark_source_commits_succeeded_total": 1,
        "kafkaspark_source_commits_failed_total": 0,
        "kafkaspark_source_records_in_total": 60,
        "kafkaspark_source_partitions": 1,
        "kafkaspark_sink_records_out_total": 50,
        "kafkaspark_sink_transactions_committed_total": 3,
        "kafkaspark_sink_transactions_aborted_total": 1,
        "kafkaspark_checkpoint_last_completed_id": 8,
        "kafkaspark_checkpoints_completed_total": 1,
        "kafkaspark_checkpoint_last_completed_timestamp_seconds": 1795262400,
        "kafkaspark_checkpoint_last_duration_seconds": 0.25,
        "kafkaspark_checkpoint_last_size_bytes": 900,
    }.items() <= found.items()
    assert "kafkaspark_watermark_seconds" not in found
    assert {
        "checkpoint_id": 8, "checkpoint_time": "2026-11-21T12:00:00Z", "checkpoint_duration_millis": 250,
        "checkpoint_bytes": 900, "partitions": 1, "lag_records": 7, "records_in": 1060, "records_out": 950,
        "records_per_second": 5, "records_in_per_second": 6, "transactions_committed": 21, "transactions_aborted": 5,
        "commits_succeeded": 1, "commits_failed": 0,
    }.items() <= report.items()  # fmt: skip


def test_the_rates_are_of_records_between_two_completions() -> None:
    progress, report = reported_progress(0, 1, 11, 21)
    progress.recovered(recovery(records_out=900))
    split = KafkaPartitionSplit(A0, 0, 60)
    progress.started(completed(7, split).document, lambda: None)
    progress.completed(completed(8, split, counters=Counters(records_in=500, records_out=1000)), 0.05)
    assert report["records_per_second"] == 10, "from the begin of the first checkpoint"
    assert report["records_in_per_second"] == 50
    progress.completed(completed(9, split, counters=Counters(records_in=520, records_out=1300)), 0.05)
    assert (report["records_in_per_second"], report["records_per_second"]) == (2, 30)


def test_transactions_of_the_local_pace_are_in_no_document_and_count_all_the_same() -> None:
    progress, report = reported_progress()
    progress.recovered(recovery(transactions_committed=20))
    split, local = KafkaPartitionSplit(A0, 40, 100), LocalPart(era=3, placed=frozenset({A0}))
    progress.completed(completed(8, split, counters=Counters(transactions_committed=95), local=local), 10)
    assert samples(progress)["kafkaspark_sink_transactions_committed_total"] == 77
    assert report["transactions_committed"] == 95


def test_S37_a_commit_is_counted_for_each_checkpoint_that_moved_offsets() -> None:
    progress, _ = reported_progress()
    first, second = KafkaPartitionSplit(A0, 0, 5), KafkaPartitionSplit(A1, 0, 0)
    progress.completed(completed(1, first, second, committables=(committable(0, first), committable(1, second))), 1)
    assert progress.snapshot.commits_succeeded == 1
    assert progress.snapshot.committed == {A0: 5}, "nothing was read of the other partition"
    progress.completed(completed(2, first, committables=(committable(0, first),), evidence=""), 1)
    progress.completed(completed(3, first), 1)
    assert progress.snapshot.commits_succeeded == 1, "no offsets inside: other modes, or subtasks without output"


def test_S37_commits_after_checkpoints_are_counted_as_they_end() -> None:
    progress, report = reported_progress()
    progress.on_complete({A0: 5}, "")
    progress.on_complete({A1: 6}, "1 of 2 partitions refused")
    progress.on_complete({}, "the group may not be written")
    found = samples(progress)
    assert found["kafkaspark_source_commits_succeeded_total"] == report["commits_succeeded"] == 1
    assert found["kafkaspark_source_commits_failed_total"] == report["commits_failed"] == 2
    assert progress.snapshot.committed == {A0: 5, A1: 6}


def test_a_partition_that_is_no_longer_read_leaves_no_series_behind() -> None:
    progress, _ = reported_progress()
    progress.on_complete({A0: 5, A1: 6}, "")
    progress.completed(completed(1, KafkaPartitionSplit(A0, 5, 5)), 1)
    assert not [name for name in samples(progress) if "partition=1" in name]
    assert progress.snapshot.committed == {A0: 5}


def test_the_watermark_is_that_of_the_last_batch() -> None:
    progress, _ = reported_progress()
    progress.completed(completed(1, watermark=1_700_000_000_500), 1)
    assert samples(progress)["kafkaspark_watermark_seconds"] == 1_700_000_000.5


def test_watermarks_of_the_source_are_series_of_partitions_and_subtasks() -> None:
    progress, _ = reported_progress()
    progress.watermarks = WatermarkSnapshot
    assert not [name for name in samples(progress) if "watermark" in name or "idle" in name]
    progress.watermarks = lambda: WatermarkSnapshot(
        job=1_000, subtasks={0: 1_500, 1: 1_000}, partitions={A0: 1_500, A1: 1_000}, idle={A0: False, A1: True},
        paused={A0: True, A1: False},
    )  # fmt: skip
    found = samples(progress)
    assert {
        "kafkaspark_watermark_seconds": 1,
        "kafkaspark_source_subtask_watermark_seconds,subtask=0": 1.5,
        "kafkaspark_source_subtask_watermark_seconds,subtask=1": 1,
        "kafkaspark_source_partition_watermark_seconds,partition=0,topic=a": 1.5,
        "kafkaspark_source_partition_watermark_seconds,partition=1,topic=a": 1,
        "kafkaspark_source_partition_idle,partition=0,topic=a": 0,
        "kafkaspark_source_partition_idle,partition=1,topic=a": 1,
        "kafkaspark_source_partition_paused,partition=0,topic=a": 1,
        "kafkaspark_source_partition_paused,partition=1,topic=a": 0,
    }.items() <= found.items()


def test_late_rows_are_counted() -> None:
    progress, _ = reported_progress()
    progress.completed(completed(1), 1, late_rows=4)
    assert samples(progress)["kafkaspark_source_late_records_dropped_total"] == 4


@pytest.mark.parametrize("name", ["topic", "a_b", "a.b", "a-b", "a_b.c-d"])
def test_S26_pending_records_is_absent_then_exact(name: str) -> None:
    partition = TopicPartition(name, 0)
    enumerator = KafkaSourceEnumerator(
        cluster=FakeCluster({name: 1}, {}, {partition: 10}), subscriber=TopicListSubscriber((name,)),
        starting=EarliestOffsetsInitializer(), options=EnumeratorOptions(discovery_interval=0, max_offsets=1),
        warn=lambda *_: None,
    )  # fmt: skip
    progress, _ = reported_progress()
    enumerator.start(None)
    progress.started(completed(0, *enumerator.unplanned()).document, lambda: enumerator.pending)
    assert "kafkaspark_source_pending_records" not in samples(progress)
    seen = []
    for number in range(1, 11):
        splits = enumerator.plan()
        enumerator.complete(splits)
        progress.completed(completed(number, *splits), 1)
        found = samples(progress)
        assert found[f"kafkaspark_source_records_lag,partition=0,topic={name}"] == 10 - number
        seen.append(found["kafkaspark_source_pending_records"])
    assert seen == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_series_are_bounded_by_sums() -> None:
    three = {TopicPartition("a", 0): 1, TopicPartition("a", 1): 2, TopicPartition("b", 0): 4}
    assert bounded(three, 3) == {("a", "0"): 1, ("a", "1"): 2, ("b", "0"): 4}
    assert bounded(three, 2) == {("a", ""): 3, ("b", ""): 4}
    assert bounded(three, 1) == {("", ""): 7}
    assert bounded(three, 2, combine=min) == {("a", ""): 1, ("b", ""): 4}
    assert bounded(three, 1, combine=min) == {("", ""): 1}
    assert bounded({}, 1) == {}


def test_ten_thousand_partitions_make_few_series() -> None:
    progress, _ = reported_progress()
    many = {TopicPartition(f"t{number % 100}", number): 1 for number in range(10_000)}
    splits = tuple(KafkaPartitionSplit(partition, 0, 1) for partition in many)
    progress.started(completed(0, *splits).document, lambda: many)
    progress.on_complete(many, "")
    found = samples(progress)
    assert found["kafkaspark_source_records_lag,partition=,topic=t7"] == 100
    assert found["kafkaspark_source_current_offset,partition=,topic=t7"] == 100
    assert found["kafkaspark_source_pending_records"] == 10_000
    assert len(found) < MAX_SERIES


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    opened = MetricsEndpoint(JOB, reported_progress()[0], port=0)
    yield opened
    opened.close()


def test_the_endpoint_serves_the_registry_of_this_job_alone(endpoint: MetricsEndpoint) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "# HELP kafkaspark_source_commits_failed_total commitsFailed: " in text
    assert "# TYPE kafkaspark_source_commits_failed_total counter" in text
    assert "process_resident_memory_bytes" in text
    assert "python_info" not in text, "the library's own registry"


def test_the_endpoint_is_closed_with_the_attempt(endpoint: MetricsEndpoint) -> None:
    endpoint.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=PATIENCE)


def test_a_port_that_is_taken_is_an_error_of_the_system() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            MetricsEndpoint(JOB, reported_progress()[0], port=taken.getsockname()[1])


@pytest.mark.parametrize(("pod", "address"), [("", "127.0.0.1"), ("10.1.2.3", "0.0.0.0"), ("fd00::1", "::")])
def test_a_pod_serves_every_address_and_a_developers_machine_itself(
    monkeypatch: pytest.MonkeyPatch, pod: str, address: str
) -> None:
    from sparkapp.spark.reporting.metrics import _address

    monkeypatch.setenv("KAFKASPARK_POD_IP", pod)
    assert _address() == address


def test_open_transactions_are_shown_and_reported_where_they_change() -> None:
    updates: list[dict[str, object]] = []
    progress = Progress(lambda **changes: updates.append(changes))
    assert not [name for name in samples(progress) if "transactions_open" in name]
    for _ in range(2):
        progress.transactions(OpenNow(count=2, oldest_start_millis=1_700_000_000_000, hanging=1))
    found = samples(progress)
    assert found["kafkaspark_sink_transactions_open"] == 2
    assert found["kafkaspark_sink_oldest_transaction_age_seconds"] > 1e6
    progress.transactions(OpenNow(count=0, oldest_start_millis=None))
    assert samples(progress)["kafkaspark_sink_oldest_transaction_age_seconds"] == 0
    progress.transactions(None)
    assert not [name for name in samples(progress) if "transactions_open" in name]
    names = ("transactions_known", "transactions_open", "oldest_transaction_time", "transactions_hanging")
    assert updates == [
        dict(zip(names, values, strict=True))
        for values in [(True, 2, "2023-11-14T22:13:20Z", 1), (True, 0, "", 0), (False, 0, "", 0)]
    ]
