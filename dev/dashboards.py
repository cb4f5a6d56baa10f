"""The chart's dashboards of Grafana, generated: ``make generate`` writes them.

A dashboard is a table of panels here and a JSON file in the chart, which a sidecar of Grafana loads. A test holds that
the files are what this module generates, and that each metric of an expression is exported.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkapp.model.checkpoint.codec import MAX_DOCUMENT_BYTES

FOLDER = Path(__file__).resolve().parents[1] / "charts/kafkaspark-operator/files/dashboards"

_JOB = 'namespace="$namespace",job="$job"'
_DRIVER = 'namespace="$namespace",kafkaspark_io_job="$job"'
"""Labels that the chart's PodMonitor gives the series of a driver."""
_FLEET = 'namespace=~"$namespace"'
_WIDTH = 24
_HEIGHT = 8
_THRESHOLDS = {"mode": "absolute", "steps": [{"color": "green", "value": None}]}


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph, or a number where ``kind`` is ``stat``.

    :param queries: PromQL and the legend of its series.
    :param unit: Grafana's name of it.
    :param text: what the reader does with the panel; shown behind its title.
    :param width: of the 24 columns of a row.
    """

    title: str
    text: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A file of the chart.

    :param variables: names of its variables behind the data source: ``namespace``, ``job``.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[str, ...] = ("namespace", "job")
    every: bool = False
    """Whether the variables may be all their values."""


DASHBOARDS = (
    Dashboard(
        "fleet", "Kafka Spark jobs",
        (
            Panel("Jobs", "Jobs of the selected namespaces.", ((f"count(kafkaspark_job_ready{{{_FLEET}}})", ""),),
                  kind="stat", width=4),
            Panel("Not Ready", "Jobs to look at; suspended and finished jobs are left out.",
                  ((f"count(kafkaspark_job_ready{{{_FLEET}}} == 0 unless on (namespace, job) "
                    'kafkaspark_job_state{state=~"Suspended|Finished"} == 1) or vector(0)', ""),),
                  kind="stat", width=4),
            Panel("Failed", "Jobs that a restart cannot help; their conditions have cause and remedy.",
                  ((f'sum(kafkaspark_job_state{{{_FLEET},state="Failed"}}) or vector(0)', ""),), kind="stat", width=4),
            Panel("Lag", "Records that are not read yet.", ((f"sum(kafkaspark_job_lag_records{{{_FLEET}}})", ""),),
                  kind="stat", width=4),
            Panel("Records in", "Records read a second.",
                  ((f"sum(rate(kafkaspark_job_records_in{{{_FLEET}}}[5m]))", ""),),
                  unit="cps", kind="stat", width=4),
            Panel("Leader", "1 while an operator leads. Without a leader no job is restarted.",
                  (("max(kafkaspark_operator_leader)", ""),), kind="stat", width=4),
            Panel("States", "Jobs by their state.",
                  ((f"sum by (state) (kafkaspark_job_state{{{_FLEET}}}) > 0", "{{state}}"),)),
            Panel("Restarts", "Restarts within 15 minutes of attempts that ended by themselves.",
                  ((f"topk(10, increase(kafkaspark_job_restarts{{{_FLEET}}}[15m]) > 0)", "{{namespace}}/{{job}}"),)),
            Panel("Largest lags", "Records that are not read yet, of ten jobs.",
                  ((f"topk(10, kafkaspark_job_lag_records{{{_FLEET}}})", "{{namespace}}/{{job}}"),)),
            Panel("Oldest open transactions", "Readers wait behind an open transaction.",
                  ((f"topk(10, kafkaspark_job_oldest_transaction_age_seconds{{{_FLEET}}})",
                    "{{namespace}}/{{job}}"),), unit="s"),
            Panel("Time since the last checkpoint", "An idle job completes no checkpoint.",
                  ((f"topk(10, kafkaspark_job_checkpoint_age_seconds{{{_FLEET}}} and on (namespace, job) "
                    "kafkaspark_job_lag_records > 0)", "{{namespace}}/{{job}}"),), unit="s"),
            Panel("Reconciliation", "Seconds for a look at a job, and jobs that wait for it.",
                  (("histogram_quantile(0.99, sum by (le) "
                    "(rate(kafkaspark_operator_reconcile_duration_seconds_bucket[5m])))", "p99, s"),
                   ("max(kafkaspark_operator_queue_depth)", "queue"))),
            Panel("Requests to the API server", "By verb and HTTP status; 0 is no answer.",
                  (("sum by (verb, code) (rate(kafkaspark_operator_api_requests_total[5m]))", "{{verb}} {{code}}"),),
                  unit="reqps"),
            Panel("From the resource to the driver's pod", "Of new jobs.",
                  (("histogram_quantile(0.99, sum by (le) "
                    "(rate(kafkaspark_operator_job_submit_latency_seconds_bucket[1h])))", "p99"),), unit="s"),
            Panel("Refused watches and dropped events", "A refused watch hides the jobs of its namespace.",
                  (("kafkaspark_operator_watch_refused > 0", "watch of {{resource}} in {{namespace}}"),
                   ("sum by (code) (rate(kafkaspark_operator_events_dropped_total[5m])) > 0", "events, {{code}}"))),
        ),
        variables=("namespace",), every=True,
    ),
    Dashboard(
        "job", "Kafka Spark job",
        (
            Panel("Ready", "1 while the job's condition Ready is True.",
                  ((f"max(kafkaspark_job_ready{{{_JOB}}})", ""),), kind="stat", width=4),
            Panel("State", "The job's state.",
                  ((f"kafkaspark_job_state{{{_JOB}}} == 1", "{{state}}"),), kind="stat", width=4),
            Panel("Attempt", "Number of the current attempt.",
                  ((f"max(kafkaspark_job_attempt{{{_JOB}}})", ""),), kind="stat", width=4),
            Panel("Parallelism", "Subtasks of the current attempt.",
                  ((f"max(kafkaspark_job_parallelism{{{_JOB}}})", ""),), kind="stat", width=4),
            Panel("Lag", "Records that are not read yet.",
                  ((f"max(kafkaspark_job_lag_records{{{_JOB}}})", ""),), kind="stat", width=4),
            Panel("Restarts", "Since the job's creation.",
                  ((f"max(kafkaspark_job_restarts{{{_JOB}}})", ""),), kind="stat", width=4),
            Panel("Rates", "Records read and written a second.",
                  ((f"rate(kafkaspark_source_records_in_total{{{_DRIVER}}}[2m])", "in"),
                   (f"rate(kafkaspark_sink_records_out_total{{{_DRIVER}}}[2m])", "out")), unit="cps"),
            Panel("Lag by partition", "One partition that grows alone is skew.",
                  ((f"kafkaspark_source_records_lag{{{_DRIVER}}}", "{{topic}}-{{partition}}"),)),
            Panel("Watermark lag", "How far event time is behind the clock.",
                  ((f"time() - kafkaspark_watermark_seconds{{{_DRIVER}}}", "watermark"),), unit="s"),
            Panel("Records that are not in the output", "Records that did not parse, and late rows.",
                  ((f"rate(kafkaspark_job_records_skipped{{{_JOB}}}[5m])", "skipped"),
                   (f"rate(kafkaspark_job_records_dead_lettered{{{_JOB}}}[5m])", "dead letters"),
                   (f"rate(kafkaspark_source_late_records_dropped_total{{{_DRIVER}}}[5m])", "late")), unit="cps"),
            Panel("Quotas of the brokers", "Share of time for which answers were delayed.",
                  ((f"rate(kafkaspark_client_fetch_throttle_seconds_total{{{_DRIVER}}}[5m])", "fetch"),
                   (f"rate(kafkaspark_client_produce_throttle_seconds_total{{{_DRIVER}}}[5m])", "produce")),
                  unit="percentunit"),
            Panel("The driver's Python process", "CPU and memory; executors have none of these series.",
                  ((f"rate(process_cpu_seconds_total{{{_DRIVER}}}[2m])", "CPU"),
                   (f"process_resident_memory_bytes{{{_DRIVER}}} / 1024 / 1024 / 1024", "memory, GiB"))),
        ),
    ),
    Dashboard(
        "checkpoints", "Checkpoints of a Kafka Spark job",
        (
            Panel("Last completed", "Number of the checkpoint.",
                  ((f"max(kafkaspark_job_checkpoint{{{_JOB}}})", ""),), kind="stat", width=8),
            Panel("Time since", "An idle job completes no checkpoint.",
                  ((f"max(kafkaspark_job_checkpoint_age_seconds{{{_JOB}}})", ""),), unit="s", kind="stat", width=8),
            Panel("Document", f"Its size; the limit is {MAX_DOCUMENT_BYTES:,} bytes.",
                  ((f"max(kafkaspark_job_checkpoint_bytes{{{_JOB}}})", ""),), unit="bytes", kind="stat", width=8),
            Panel("Duration", "From the barrier until the records are visible.",
                  ((f"kafkaspark_checkpoint_last_duration_seconds{{{_DRIVER}}}", "last"),
                   (f"avg_over_time(kafkaspark_checkpoint_last_duration_seconds{{{_DRIVER}}}[10m])", "mean of 10 min")),
                  unit="s"),
            Panel("Completed", "Checkpoints a minute.",
                  ((f"60 * rate(kafkaspark_checkpoints_completed_total{{{_DRIVER}}}[5m])", "a minute"),)),
            Panel("Flushes", "Share of time in which producers wait for the brokers.",
                  ((f"rate(kafkaspark_client_flush_seconds_total{{{_DRIVER}}}[5m])", "flush"),), unit="percentunit"),
            Panel("Commits of the group's offsets", "A refused commit never fails the job; lag tools see it.",
                  ((f"rate(kafkaspark_source_commits_succeeded_total{{{_DRIVER}}}[5m])", "accepted"),
                   (f"rate(kafkaspark_source_commits_failed_total{{{_DRIVER}}}[5m])", "refused")), unit="cps"),
        ),
    ),
    Dashboard(
        "transactions", "Transactions of a Kafka Spark job",
        (
            Panel("Open", "By a look at the coordinators every 10 s.",
                  ((f"max(kafkaspark_sink_transactions_open{{{_DRIVER}}})", ""),), kind="stat", width=8),
            Panel("Oldest", "Its age. Readers wait behind it.",
                  ((f"max(kafkaspark_sink_oldest_transaction_age_seconds{{{_DRIVER}}})", ""),), unit="s",
                  kind="stat", width=8),
            Panel("Aborted", "Transactions of previous attempts, since the job's creation.",
                  ((f"max(kafkaspark_job_transactions_aborted{{{_JOB}}})", ""),), kind="stat", width=8),
            Panel("Open transactions", "More than subtasks times two is unusual.",
                  ((f"kafkaspark_sink_transactions_open{{{_DRIVER}}}", "open"),)),
            Panel("Age of the oldest", "The brokers abort it at sink.transactions.timeoutSeconds.",
                  ((f"kafkaspark_sink_oldest_transaction_age_seconds{{{_DRIVER}}}", "age"),), unit="s"),
            Panel("Ends", "Transactions a second.",
                  ((f"rate(kafkaspark_sink_transactions_committed_total{{{_DRIVER}}}[5m])", "committed"),
                   (f"rate(kafkaspark_sink_transactions_aborted_total{{{_DRIVER}}}[5m])", "aborted")), unit="cps"),
            Panel("Records of a transaction", "Small transactions cost the brokers more for each record.",
                  ((f"rate(kafkaspark_sink_records_out_total{{{_DRIVER}}}[5m]) / "
                    f"rate(kafkaspark_sink_transactions_committed_total{{{_DRIVER}}}[5m])", "records"),)),
        ),
    ),
)  # fmt: skip


def text_of(dashboard: Dashboard) -> str:
    """The file of a dashboard, as Grafana imports it."""
    body = {
        "uid": f"kafkaspark-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["kafkaspark"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["kafkaspark"], "title": "Kafka Spark", "keepTime": True,
                   "includeVars": True, "asDropdown": False}],
        "templating": {"list": _variables(dashboard)},
        "panels": _placed(dashboard.panels),
    }  # fmt: skip
    return json.dumps(body, indent=1) + "\n"


def _variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}
    found: list[dict[str, Any]] = [source]
    for name in dashboard.variables:
        within = '{namespace="$namespace"}' if name == "job" else ""
        query = f"label_values(kafkaspark_job_ready{within}, {name})"
        every = {"includeAll": True, "multi": True, "allValue": ".*"} if dashboard.every else {}
        found.append({
            "name": name, "label": name.capitalize(), "type": "query", "query": {"query": query, "refId": name},
            "datasource": _source(), "refresh": 2, "sort": 1, **every,
        })  # fmt: skip
    return found


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Panels from left to right; a row is as high as its first panel."""
    found, left, top, height = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        if left + panel.width > _WIDTH:
            left, top = 0, top + height
        height = _HEIGHT // 2 if panel.kind == "stat" else _HEIGHT
        found.append(_panel(panel, number, {"x": left, "y": top, "w": panel.width, "h": height}))
        left += panel.width
    return found


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(65 + index), "expr": expression, "legendFormat": legend or "__auto", "datasource": _source()}
        for index, (expression, legend) in enumerate(panel.queries)
    ]
    body: dict[str, Any] = {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.text, "gridPos": place,
        "datasource": _source(), "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "thresholds": _THRESHOLDS}, "overrides": []},
    }  # fmt: skip
    if panel.kind == "stat":
        text = "name" if any(legend for _, legend in panel.queries) else "auto"
        body["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none", "textMode": text}
    return body


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${datasource}"}


def main() -> None:
    """Writes the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.name}.json").write_text(text_of(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
