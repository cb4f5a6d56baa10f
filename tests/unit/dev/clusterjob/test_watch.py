"""Following objects, with a stand-in for kubectl that prints what it would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterjob.watch import TimedOut, Watch
from tests.unit.dev.clusterjob.kubectl_stand_in import kubectl_that_prints


def event(kind: str, name: str, state: str) -> str:
    body = {"type": kind, "object": {"metadata": {"name": name}, "status": {"state": state}}}
    return json.dumps(body)


def test_a_watch_has_the_newest_state_of_what_exists(tmp_path: Path) -> None:
    kubectl = kubectl_that_prints(
        tmp_path,
        event("ADDED", "a", "1"),
        event("ADDED", "b", "1"),
        event("MODIFIED", "a", "2"),
        event("DELETED", "b", "1"),
    )
    with Watch(kubectl, "pods", "--selector=") as watch:
        found = watch.wait(
            "a only", lambda objects: objects.keys() == {"a"} and objects["a"]["status"]["state"] == "2", seconds=5
        )
    assert found["a"]["metadata"]["name"] == "a"


def test_waiting_in_vain_says_for_what(tmp_path: Path) -> None:
    with (
        Watch(kubectl_that_prints(tmp_path), "pods", "--selector=") as watch,
        pytest.raises(TimedOut, match="the end: not"),
    ):
        watch.wait("the end", bool, seconds=0.05)
