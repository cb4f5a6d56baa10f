"""The driver's metrics for Prometheus; the only importer of its client in the application.

A scrape reads :class:`Progress`, which changes once a checkpoint. Names follow Prometheus (snake case, base units,
``_total``). Each HELP text begins with the name of the number in Flink or in Kafka's consumer.
"""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparkapp.dataplane import statistics
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot
from sparkapp.spark.reporting.progress import Progress, Snapshot

LOG = logging.getLogger(__name__)

MAX_SERIES = 1000
"""Most series of a metric with topic and partition.

With more partitions each topic has one series, its sum, with an empty partition. With more topics than this there is
one series, the sum of all.
"""

_CLIENT_TOTALS = (
    ("fetch_requests", "Fetch requests sent.", statistics.FETCH_REQUESTS, 1),
    ("fetched_records", "records received.", statistics.FETCHED_RECORDS, 1),
    ("fetched_bytes", "bytes of received records.", statistics.FETCHED_BYTES, 1),
    ("fetch_throttle_seconds", "throttling of consumers by brokers.", statistics.FETCH_THROTTLE_MILLIS, 1000),
    ("produced_records", "records acknowledged.", statistics.PRODUCED_RECORDS, 1),
    ("flushes", "flushes of producers.", statistics.FLUSHES, 1),
    ("flush_seconds", "time in these flushes.", statistics.FLUSH_MILLIS, 1000),
    ("produce_throttle_seconds", "throttling of producers by brokers.", statistics.PRODUCE_THROTTLE_MILLIS, 1000),
)

_LABELS = ("topic", "partition")

Combine = Callable[[Iterable[float]], float]


class DriverCollector(Collector):
    """Makes metrics of the present snapshot at each scrape."""

    def __init__(self, job: Job, progress: Progress) -> None:
        self._job = job
        self._progress = progress

    def describe(self) -> Iterator[Metric]:
        """Empty: the families are known at the scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape; called by the client's HTTP server."""
        now, pending = self._progress.snapshot, self._progress.pending
        yield self._info(now.parallelism or self._job.spec.parallelism)
        yield from _source(now, pending)
        yield from _watermarks(now.watermark_millis, self._progress.watermarks())
        yield from _sink(now)
        yield from _checkpoints(now)
        yield from _clients(self._progress.client_totals())

    def _info(self, parallelism: int) -> Metric:
        job = self._job
        labels = {
            "job_namespace": job.namespace,
            "job_name": job.name,
            "attempt": str(job.attempt),
            "parallelism": str(parallelism),
            "delivery_guarantee": str(job.spec.sink.delivery_guarantee),
        }
        info = GaugeMetricFamily(
            "kafkaspark_driver_info", "The job and attempt of this driver; always 1.", labels=list(labels)
        )
        info.add_metric(list(labels.values()), 1)
        return info


def _source(now: Snapshot, pending: Mapping[TopicPartition, int] | None) -> Iterator[Metric]:
    if pending is not None:
        yield _gauge(
            "kafkaspark_source_pending_records",
            "pendingRecords: records not yet read, at the last look at the partitions' ends.",
            sum(pending.values()),
        )
        yield _by_partition("kafkaspark_source_records_lag", "records-lag: pendingRecords by partition.", pending)
        yield _gauge(
            "kafkaspark_source_records_lag_max",
            "records-lag-max: the largest records-lag of a partition.",
            max(pending.values(), default=0),
        )
    yield _by_partition(
        "kafkaspark_source_current_offset",
        "currentOffset, plus one: the next offset to read after the last completed checkpoint.",
        now.offsets,
    )
    yield _by_partition(
        "kafkaspark_source_committed_offset",
        "committedOffset: the offset that this attempt last committed to the group.",
        now.committed,
    )
    yield _counter(
        "kafkaspark_source_commits_succeeded",
        "commitsSucceeded: commits of the group's offsets, within transactions (one a checkpoint) or after it.",
        now.commits_succeeded,
    )
    yield _counter(
        "kafkaspark_source_commits_failed",
        "commitsFailed: refused commits of the group's offsets; the job continues.",
        now.commits_failed,
    )
    yield _counter(
        "kafkaspark_source_records_in", "numRecordsIn: source offsets of completed checkpoints.", now.records_in
    )
    yield _gauge("kafkaspark_source_partitions", "Partitions that are read.", len(now.offsets))
    yield _counter(
        "kafkaspark_source_rebalances", "Rebalances of the group, with groupMembership Subscribe.", now.rebalances
    )
    yield _counter(
        "kafkaspark_source_late_records_dropped",
        "numLateRecordsDropped: rows that the transform dropped as later than the watermark.",
        now.late_rows,
    )


def _watermarks(of_transform: int | None, of_source: WatermarkSnapshot | None) -> Iterator[Metric]:
    job_millis = of_transform if of_source is None else of_source.job
    if job_millis is not None:
        yield _gauge(
            "kafkaspark_watermark_seconds",
            "currentInputWatermark: the job's watermark after the last checkpoint, in Unix time.",
            job_millis / 1000,
        )
    if of_source is None:
        return
    by_subtask = GaugeMetricFamily(
        "kafkaspark_source_subtask_watermark_seconds",
        "currentOutputWatermark of a subtask of the source, in Unix time.",
        labels=["subtask"],
    )
    for subtask, millis in sorted(of_source.subtasks.items()):
        by_subtask.add_metric([str(subtask)], millis / 1000)
    yield by_subtask
    yield _by_partition(
        "kafkaspark_source_partition_watermark_seconds",
        "watermark by partition: its latest record time, less the bound, in Unix time.",
        {partition: millis / 1000 for partition, millis in of_source.partitions.items()},
        combine=min,
    )
    yield _by_partition(
        "kafkaspark_source_partition_idle",
        "1 for a partition that is idle: it holds no watermark back.",
        of_source.idle,
    )
    yield _by_partition(
        "kafkaspark_source_partition_paused",
        "1 for a partition with unread records, none of which the last checkpoint reads.",
        of_source.paused,
    )


def _sink(now: Snapshot) -> Iterator[Metric]:
    yield _counter("kafkaspark_sink_records_out", "numRecordsOut: records of completed checkpoints.", now.records_out)
    yield _counter(
        "kafkaspark_sink_transactions_committed",
        "Kafka transactions committed, also those of previous attempts.",
        now.transactions_committed,
    )
    yield _counter(
        "kafkaspark_sink_transactions_aborted",
        "Kafka transactions of previous attempts aborted at the start.",
        now.transactions_aborted,
    )
    if now.transactions is None:
        return
    yield _gauge("kafkaspark_sink_transactions_open", "Open Kafka transactions of the prefix.", now.transactions.count)
    oldest = now.transactions.oldest_start_millis
    yield _gauge(
        "kafkaspark_sink_oldest_transaction_age_seconds",
        "Age of the oldest open transaction, 0 if none is open; readers wait for its end.",
        0 if oldest is None else max(0.0, time.time() - oldest / 1000),
    )


def _clients(totals: Mapping[str, int]) -> Iterator[Metric]:
    for name, text, key, unit in _CLIENT_TOTALS:
        yield _counter(f"kafkaspark_client_{name}", f"Executors' Kafka clients: {text}", totals.get(key, 0) / unit)


def _checkpoints(now: Snapshot) -> Iterator[Metric]:
    yield _gauge(
        "kafkaspark_checkpoint_last_completed_id",
        "lastCompletedCheckpointId: the last completed checkpoint of the job.",
        now.checkpoint_id,
    )
    yield _counter(
        "kafkaspark_checkpoints_completed", "numberOfCompletedCheckpoints: of this attempt.", now.checkpoints
    )
    if not now.checkpoints:
        return
    yield _gauge(
        "kafkaspark_checkpoint_last_completed_timestamp_seconds",
        "When the last checkpoint was completed, in Unix time.",
        now.checkpoint_time,
    )
    yield _gauge(
        "kafkaspark_checkpoint_last_duration_seconds",
        "lastCheckpointDuration: from the start of its tasks until its records are visible.",
        now.checkpoint_seconds,
    )
    yield _gauge(
        "kafkaspark_checkpoint_last_size_bytes",
        "lastCheckpointSize: the checkpoint document's size.",
        now.checkpoint_bytes,
    )


def bounded(
    values: Mapping[TopicPartition, float], limit: int, combine: Combine = sum
) -> Mapping[tuple[str, str], float]:
    """Values by topic and partition, or combined if that would be more than ``limit`` series. Pure.

    :param combine: of the values of a topic, or of all topics: their sum or their minimum.
    """
    if len(values) <= limit:
        return {(topic, str(partition)): value for (topic, partition), value in values.items()}
    topics: dict[str, list[float]] = defaultdict(list)
    for (topic, _), value in values.items():
        topics[topic].append(value)
    if len(topics) <= limit:
        return {(topic, ""): combine(found) for topic, found in topics.items()}
    return {("", ""): combine(values.values())}


def _by_partition(name: str, text: str, values: Mapping[TopicPartition, float], combine: Combine = sum) -> Metric:
    how = "sum" if combine is sum else "minimum"
    family = GaugeMetricFamily(name, f"{text} Beyond {MAX_SERIES} partitions: {how} by topic.", labels=_LABELS)
    for labels, value in bounded(values, MAX_SERIES, combine).items():
        family.add_metric(labels, value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


class MetricsEndpoint:
    """Serves ``/metrics`` over HTTP in its own threads, until :meth:`close`.

    In a pod it listens on every address, because Prometheus runs in another pod; elsewhere on this machine alone.

    :param port: TCP port; 0 takes any free one.
    :raises OSError: the port is taken.
    """

    def __init__(self, job: Job, progress: Progress, *, port: int) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(DriverCollector(job, progress))
        self._server, self._thread = start_http_server(port, addr=_address(), registry=registry)
        self.port = self._server.server_port
        LOG.info("metrics: http://%s:%d/metrics", self._server.server_address[0], self.port)

    def close(self) -> None:
        """Closes the port and waits for the server's thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _address() -> str:
    pod = os.environ.get("KAFKASPARK_POD_IP", "")
    if not pod:
        return "127.0.0.1"
    return "::" if ":" in pod else "0.0.0.0"  # noqa: S104 - Prometheus comes from outside
