"""Prometheus metrics of the operator's work, and of the jobs in the cache at the time of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kafkasparkjob_operator import clock
from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.scaling_reason import DECISION
from kafkasparkjob_operator.status.status import JobState


class OperatorMetrics:
    """The operator's metrics; each instance has its own registry.

    :param exports_jobs: True where this process has the jobs' series: only the leader has them.
    """

    def __init__(self, cache: Cache, *, exports_jobs: Callable[[], bool] = lambda: True) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.reconcile_seconds = Histogram(
            "kafkaspark_operator_reconcile_duration_seconds",
            "Seconds to reconcile a job once.",
            ["result"],
            buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10),
            registry=self.registry,
        )
        self.start_seconds = Histogram(
            "kafkaspark_operator_job_submit_latency_seconds",
            "From the creation of a job's resource to the creation of its first driver pod.",
            buckets=(0.1, 0.25, 0.5, 1, 2, 5, 15, 60),
            registry=self.registry,
        )
        self.requests = Counter(
            "kafkaspark_operator_api_requests", "Requests to the API server.", ["verb", "code"], registry=self.registry
        )
        self.events_dropped = Counter(
            "kafkaspark_operator_events_dropped",
            "Events that Kubernetes refused or did not accept within a second, by HTTP status; 0 for no answer.",
            ["code"],
            registry=self.registry,
        )
        self.events_throttled = Counter(
            "kafkaspark_operator_events_throttled", "Events beyond the bucket of their job.", registry=self.registry
        )
        self.scaling_decisions = Counter(
            "kafkaspark_operator_scaling_decisions",
            "Decisions of autoscalers, by the reason of their events: ScalingUp, ScalingDown, ScalingBlocked.",
            ["reason"],
            registry=self.registry,
        )
        self.leader = Gauge("kafkaspark_operator_leader", "1 while this process leads.", registry=self.registry)
        self.watch_refused = Gauge(
            "kafkaspark_operator_watch_refused",
            "1 while the watch of a resource in a namespace is refused; its jobs are not reconciled.",
            ["resource", "namespace"],
            registry=self.registry,
        )
        self.registry.register(JobCollector(cache, exports_jobs))

    def gauge(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """Adds a gauge that is read at a scrape."""
        Gauge(name, documentation, registry=self.registry).set_function(read)

    def observe_request(self, verb: str, status: int) -> None:
        """Counts a request; status 0 where no answer came."""
        self.requests.labels(verb=verb, code=str(status)).inc()

    def count_decisions(self, events: Iterable[JobEvent]) -> None:
        """Counts the decisions of an autoscaler, by their events."""
        for event in events:
            if event.occurrence.startswith(DECISION) and not event.reported:
                self.scaling_decisions.labels(reason=str(event.reason)).inc()

    def observe_dropped_event(self, status: int) -> None:
        """Counts an unpublished event; status 0 where no answer came in time."""
        self.events_dropped.labels(code=str(status)).inc()

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)


_NUMBERS: tuple[tuple[str, str, tuple[str, str]], ...] = (
    ("kafkaspark_job_parallelism", "Parallelism of the current attempt.", ("", "parallelism")),
    ("kafkaspark_job_attempt", "Number of the current attempt.", ("attempt", "id")),
    (
        "kafkaspark_job_restarts",
        "Restarts of attempts that ended by themselves.",
        ("restarts", "total"),
    ),
    ("kafkaspark_job_lag_records", "Records not yet read.", ("source", "lagRecords")),
    ("kafkaspark_job_records_in", "Records read since the first start.", ("source", "recordsIn")),
    ("kafkaspark_job_commits_succeeded", "Commits of group offsets, this attempt.", ("source", "commitsSucceeded")),
    ("kafkaspark_job_commits_failed", "Commits of group offsets that failed.", ("source", "commitsFailed")),
    ("kafkaspark_job_records_out", "Records written since the first start.", ("sink", "recordsOut")),
    ("kafkaspark_job_records_skipped", "Records that did not parse and were skipped.", ("source", "recordsSkipped")),
    (
        "kafkaspark_job_records_dead_lettered",
        "Records that did not parse, in the dead letter topic.",
        ("sink", "recordsDeadLettered"),
    ),
    ("kafkaspark_job_checkpoint", "Number of the last completed checkpoint.", ("checkpoint", "id")),
    ("kafkaspark_job_checkpoint_bytes", "Size of the checkpoint document.", ("checkpoint", "bytes")),
    (
        "kafkaspark_job_autoscaler_recommended_parallelism",
        "Parallelism that the load asks for, by the autoscaler.",
        ("autoscaler", "recommended"),
    ),
    (
        "kafkaspark_job_autoscaler_parallelism",
        "Parallelism of the autoscaler's last decision; absent before the first.",
        ("autoscaler", "parallelism"),
    ),
    ("kafkaspark_job_open_transactions", "Transactions open at the last report.", ("transactions", "open")),
    ("kafkaspark_job_transactions_committed", "Transactions committed.", ("transactions", "committed")),
    ("kafkaspark_job_transactions_aborted", "Transactions aborted.", ("transactions", "aborted")),
)


class JobCollector(Collector):
    """Reads the cache at a scrape, so that a deleted job leaves no series behind.

    Only the leader exports the jobs; otherwise sums over jobs would count each job several times.
    """

    def __init__(self, cache: Cache, exports_jobs: Callable[[], bool]) -> None:
        self._cache = cache
        self._exports_jobs = exports_jobs

    def describe(self) -> Iterator[Metric]:
        """No families before the scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        labels = ["namespace", "job"]
        families = {name: GaugeMetricFamily(name, text, labels=labels) for name, text, _ in _NUMBERS}
        state = GaugeMetricFamily("kafkaspark_job_state", "1 for the job's state.", labels=[*labels, "state"])
        ready = GaugeMetricFamily("kafkaspark_job_ready", "1 while the job's Ready condition is True.", labels=labels)
        age = GaugeMetricFamily(
            "kafkaspark_job_checkpoint_age_seconds", "Seconds since the last completed checkpoint.", labels=labels
        )
        duration = GaugeMetricFamily(
            "kafkaspark_job_checkpoint_duration_seconds", "Seconds that the last checkpoint took.", labels=labels
        )
        oldest = GaugeMetricFamily(
            "kafkaspark_job_oldest_transaction_age_seconds",
            "Seconds since the oldest open transaction began, 0 where none is open; absent where unknown.",
            labels=labels,
        )
        target = GaugeMetricFamily(
            "kafkaspark_job_autoscaler_target_ratio",
            "spec.autoscaler.targetUtilization: the share of its time that the busiest subtask is to work.",
            labels=labels,
        )
        busy = GaugeMetricFamily(
            "kafkaspark_job_busy_ratio",
            "Mean share of their time that the subtasks of a job with an autoscaler work, by the last report.",
            labels=labels,
        )
        for key in self._cache.keys if self._exports_jobs() else ():
            job = self._cache.job(key)
            if job is None:
                continue
            where, status = [key.namespace, key.name], job.status
            for possible in JobState:
                state.add_metric([*where, str(possible)], float(status.get("state") == possible))
            ready.add_metric(where, float(_is_ready(status)))
            for name, _, path in _NUMBERS:
                number = _number(status, path)
                if number is not None:
                    families[name].add_metric(where, number)
            millis = _number(status, ("checkpoint", "durationMillis"))
            if millis is not None:
                duration.add_metric(where, millis / 1000)
            last = clock.parse_time((status.get("checkpoint") or {}).get("time"))
            if last is not None:
                age.add_metric(where, max(0.0, (clock.now() - last).total_seconds()))
            self._add_load(job, target, busy)
            transactions = status.get("transactions") or {}
            if "open" in transactions:
                began = clock.parse_time(transactions.get("oldestOpenTime"))
                seconds = 0.0 if began is None else max(0.0, (clock.now() - began).total_seconds())
                oldest.add_metric(where, seconds)
        yield from (*families.values(), state, ready, age, duration, oldest, target, busy)

    def _add_load(self, job: JobResource, target: GaugeMetricFamily, busy: GaugeMetricFamily) -> None:
        """Only of jobs with an autoscaler: a report is long."""
        percent, where = _number(job.spec, ("autoscaler", "targetUtilization")), [*job.identity.key]
        if percent is None:
            return
        target.add_metric(where, percent / 100)
        report = self._cache.fresh_report(job.identity.key, job.identity.uid)
        if report is not None and report.load is not None:
            busy.add_metric(where, report.load.busy_percent / 100)


def _number(status: Mapping[str, Any], path: tuple[str, str]) -> float | None:
    section = status.get(path[0]) if path[0] else status
    value = section.get(path[1]) if isinstance(section, Mapping) else None
    return float(value) if isinstance(value, int) else None


def _is_ready(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)
