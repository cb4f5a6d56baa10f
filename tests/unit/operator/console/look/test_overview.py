"""A job on a page: what is known, what is unknown, and what comes next."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkaspark.look.overview import overview

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
JOB: dict[str, Any] = {
    "metadata": {"namespace": "shop", "name": "orders", "creationTimestamp": "2026-11-29T09:00:00Z"},
    "spec": {"source": {"topics": ["in"]}, "sink": {"topic": "out"}},
    "status": {
        "state": "Running", "reason": "Running", "message": "attempt 4 runs with parallelism 2", "parallelism": 2,
        "attempt": {"id": 4, "startReason": "Restarted", "startedAt": "2026-11-29T11:50:00Z"},
        "engine": {"name": "Continuous", "message": "set by spec.engine"},
        "checkpoint": {"id": 41, "time": "2026-11-29T11:59:57Z", "durationMillis": 120, "bytes": 2145},
        "source": {"lagRecords": 7, "recordsIn": 100, "recordsPerSecond": 12, "recordsSkipped": 3},
        "sink": {"recordsOut": 90, "recordsPerSecond": 11, "recordsDeadLettered": 0},
        "transactions": {"open": 1, "committed": 5, "aborted": 0, "prefix": "shop.orders"},
        "restarts": {"total": 2},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Running", "message": ""},
            {"type": "Stalled", "status": "False", "reason": "Running", "message": ""},
            {"type": "TransactionsDurable", "status": "False", "reason": "NotReplicated", "message": "one copy"},
            {"type": "KafkaReachable", "status": "True", "reason": "Reachable", "message": "fine"},
        ],
    },
}  # fmt: skip


def page(job: dict[str, Any] = JOB, *pods: dict[str, Any], verbose: bool = False) -> str:
    return overview(job, pods, now=NOW, verbose=verbose).text()


def changed(**status: Any) -> dict[str, Any]:
    job = copy.deepcopy(JOB)
    job["status"].update(status)
    return job


def pod(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": "node-1"}, "status": {"phase": "Running", **status}}


def test_a_page_has_each_part_of_a_running_job() -> None:
    lines = page(JOB, pod("orders-4-exec-1"), pod("orders-4-driver")).splitlines()
    assert lines == [
        "Job           shop/orders, 3 h old",
        "State         Running, Ready True",
        "              attempt 4 runs with parallelism 2",
        "Data          in → out, ExactlyOnce",
        "              engine Continuous: set by spec.engine",
        "Attempt       4 with parallelism 2, started 10 min ago (Restarted); 2 restarts",
        "Pods          orders-4-driver  Running on node-1",
        "              orders-4-exec-1  Running on node-1",
        "Checkpoint    41, 3 s ago, took 120 ms, 2145 bytes",
        "Records       lag 7; in 100 (12/s), out 90 (11/s), 3 skipped",
        "Transactions  1 open, 5 committed, 0 aborted; ids begin with shop.orders",
        "Conditions    TransactionsDurable False (NotReplicated)",
        "                one copy",
        "",
        "$ kafkaspark logs orders --namespace shop --follow",
        "$ kafkaspark topic tail out --follow",
    ]


def test_what_is_not_reported_is_unknown_and_not_0() -> None:
    text = page(changed(source={}, sink={"recordsOut": 1}, transactions={"committed": 1}))
    assert "lag ?; in ? (?/s), out 1 (?/s)" in text
    assert "? open, 1 committed, ? aborted" in text


def test_a_job_without_status_names_the_operator() -> None:
    text = page({**JOB, "status": {}})
    assert "is it installed, and does it watch this namespace?" in text
    assert "app.kubernetes.io/name=kafkaspark-operator" in text


@pytest.mark.parametrize(
    ("spec", "status", "command"),
    [
        ({"suspend": True}, {"state": "Suspended"}, '\'{"spec":{"suspend":false}}\''),
        ({}, {"state": "Failed"}, "restartNonce"),
        ({}, {"state": "Restarting"}, "kafkaspark logs orders --namespace shop --follow"),
    ],
)
def test_the_next_command_mends_the_state(spec: dict[str, Any], status: dict[str, Any], command: str) -> None:
    job = changed(**status)
    job["spec"].update(spec)
    assert command in page(job)


def test_no_next_command_starts_a_revision_that_is_refused() -> None:
    refused = [{"revision": "orders-2", "backTo": "orders-1", "standing": True}]
    text = page(changed(state="Failed", refused=refused))
    assert "restartNonce" not in text
    assert "--verbose" in text


def test_a_pod_that_cannot_start_says_why() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes have enough memory"}
    text = page(
        JOB,
        pod("orders-4-driver", phase="Pending", containerStatuses=[waiting]),
        pod("orders-4-exec-1", phase="Pending", conditions=[unscheduled]),
    )
    assert "Pending; ErrImagePull: no such image" in text
    assert "Pending; 0/1 nodes have enough memory" in text


def test_a_failure_has_its_remedy_and_with_verbose_its_log() -> None:
    failure = {
        "attempt": 3, "reason": "TopicNotFound", "message": "no topic", "remedy": "create it", "fatal": True,
        "time": "T", "log": "Traceback\n  x",
    }  # fmt: skip
    job = changed(lastFailure=failure)
    assert "attempt 3, fatal, TopicNotFound at T\n" in page(job)
    assert "Remedy: create it" in page(job)
    assert "Traceback" not in page(job)
    assert "Traceback" in page(job, verbose=True)


def test_what_only_a_driver_knows_is_left_out_at_rest() -> None:
    conditions = [
        {"type": "CheckpointHealthy", "status": "Unknown", "reason": "NotRunning", "message": "no driver"},
        {"type": "StateValid", "status": "False", "reason": "Corrupt", "message": "cut off"},
    ]
    text = page(changed(state="Suspended", conditions=conditions))
    assert "CheckpointHealthy" not in text
    assert "StateValid False (Corrupt)" in text


def test_text_of_the_cluster_cannot_command_a_terminal() -> None:
    assert "\x1b" not in page(changed(message="\x1b[2J gone", lastFailure={"message": "\x1b]0;x\x07"}), verbose=True)
