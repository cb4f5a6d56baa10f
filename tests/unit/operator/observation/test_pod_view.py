"""Pods as the state machine sees them; nothing in a pod's status is sure to be there."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.observation.pod_view import pod_view
from sparkapp.model import names


def pod(status: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    given = {names.LABEL_JOB: "orders", names.LABEL_ATTEMPT: "3", names.LABEL_ROLE: "driver", **labels}
    return {"metadata": {"name": "orders-3-driver", "uid": "u", "labels": given}, "status": status or {}}


def test_an_empty_status_is_a_pending_pod() -> None:
    view = pod_view(pod())
    assert view is not None
    assert (view.phase, view.started, view.finished, view.deleting, view.attempt) == ("Pending", False, False, False, 3)


@pytest.mark.parametrize(("label", "attempt"), [("12", 12), ("", 0), ("x", 0), ("-1", 0), ("²", 0), ("9" * 30, 0)])
def test_the_attempt_is_a_number_or_nothing(label: str, attempt: int) -> None:
    view = pod_view(pod(**{names.LABEL_ATTEMPT: label}))
    assert view is not None
    assert view.attempt == attempt


def test_a_pod_of_no_role_is_not_ours() -> None:
    assert pod_view(pod(**{names.LABEL_ROLE: "debug"})) is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"containerStatuses": [{"name": "driver", "state": {"waiting": {"reason": "ErrImagePull"}}}]}, "ErrImagePull"),
        ({"containerStatuses": [{"name": "driver", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}, "Unschedulable"),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, ""),
    ],
)
def test_why_it_waits(status: dict[str, Any], reason: str) -> None:
    view = pod_view(pod(status))
    assert view is not None
    assert view.waiting_reason == reason


def test_the_pods_own_reason_says_more_than_the_containers() -> None:
    terminated = {"exitCode": 137, "reason": "Error", "message": "last words"}
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "containerStatuses": [
            {"name": "sidecar", "state": {"running": {}}},
            {"name": "driver", "state": {"terminated": terminated}},
        ],
    }
    view = pod_view(pod(status))
    assert view is not None
    assert (view.stopped_reason, view.exit_code, view.termination_message) == ("Evicted", 137, "last words")
    assert view.finished


SIDECAR = {"name": "proxy", "state": {"running": {}}}
ENDED_SIDECAR = {"name": "proxy", "state": {"terminated": {"exitCode": 9, "reason": "Error", "message": "proxy's"}}}


@pytest.mark.parametrize(("role", "container"), [("driver", "driver"), ("executor", "executor")])
def test_a_sidecar_that_runs_on_does_not_hide_that_the_pods_own_container_has_ended(role: str, container: str) -> None:
    terminated = {"exitCode": 1, "reason": "Error", "message": "last words"}
    own = {"name": container, "state": {"terminated": terminated}}
    view = pod_view(pod({"phase": "Running", "containerStatuses": [SIDECAR, own]}, **{names.LABEL_ROLE: role}))
    assert view is not None
    assert view.finished
    assert (view.exit_code, view.stopped_reason, view.termination_message) == (1, "Error", "last words")


@pytest.mark.parametrize(("role", "container"), [("driver", "driver"), ("executor", "executor")])
def test_a_sidecar_that_has_ended_ends_nothing(role: str, container: str) -> None:
    own = {"name": container, "state": {"running": {}}}
    view = pod_view(pod({"phase": "Running", "containerStatuses": [ENDED_SIDECAR, own]}, **{names.LABEL_ROLE: role}))
    assert view is not None
    assert not view.finished
    assert (view.started, view.exit_code, view.termination_message) == (True, None, "")


def test_a_sidecar_alone_says_nothing_of_the_driver() -> None:
    view = pod_view(pod({"phase": "Running", "containerStatuses": [ENDED_SIDECAR]}))
    assert view is not None
    assert not view.finished
