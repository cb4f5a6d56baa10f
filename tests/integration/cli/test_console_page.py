"""The console in a real browser: four hundred jobs, a job, and hostile text."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaspark.look.console import Console
from kafkaspark.look.ui import ConsoleServer
from localcluster.machine import packages
from localcluster.machine.packages import Need
from localcluster.progress import Progress
from localcluster.settings import Settings

CHROMIUM = Need("chromium", "chromium")
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
JOBS = 400


def job(number: int) -> dict[str, Any]:
    ready = number != 7
    return {
        "metadata": {"namespace": "shop", "name": f"orders-{number}", "creationTimestamp": "2026-11-29T09:00:00Z"},
        "spec": {"source": {"topics": ["in"]}, "sink": {"topic": "out"}, "transform": {"sql": {"query": HOSTILE}}},
        "status": {
            "state": "Running" if ready else "Failed", "message": HOSTILE, "source": {"lagRecords": number},
            "conditions": [{"type": "Ready", "status": str(ready), "reason": "X", "message": HOSTILE}],
            "attempt": {"id": 1, "driverPod": "orders-driver"},
            "lastFailure": {"attempt": 1, "reason": "TransformError", "message": HOSTILE, "log": HOSTILE},
        },
    }  # fmt: skip


class Cluster:
    namespace = "shop"

    def items(self, _: str) -> list[dict[str, Any]]:
        return [job(number) for number in range(JOBS)]

    def job(self, _namespace: str, name: str) -> dict[str, Any]:
        return job(int(name.rpartition("-")[2]))

    def pods(self, *_: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": HOSTILE, "creationTimestamp": HOSTILE}, "spec": {}, "status": {"phase": HOSTILE}}]

    def events(self, *_: str) -> list[dict[str, Any]]:
        return [{"reason": HOSTILE, "message": HOSTILE, "lastTimestamp": "2026-11-29T09:00:00Z"}]

    def raw(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(data=b'kafkaspark_source_records_lag{partition="3",topic="in"} 5.0\n')


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    packages.ensure((CHROMIUM,), Settings.from_environment(), Progress())
    cluster: Any = Cluster()
    record = {"partition": 0, "offset": 1, "key": None, "value": HOSTILE}
    console = Console(lambda _: cluster, lambda _topic, _count: [record])
    server = ConsoleServer(("127.0.0.1", 0), console, hosts=frozenset({"127.0.0.1"}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def document(address: str, profile: Path) -> str:
    """The page as Chromium has it after some seconds of its own clock."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--virtual-time-budget=6000", "--dump-dom", address]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def test_four_hundred_jobs_and_those_to_look_at_first(address: str, tmp_path: Path) -> None:
    page = document(address, tmp_path)
    assert f"{JOBS} of {JOBS} jobs, 1 not Ready" in page
    names = re.findall(r'href="#shop/(orders-\d+)"', page)
    assert (len(names), names[0]) == (JOBS, "orders-7")


def test_a_job_with_its_graph_lag_failure_and_output(address: str, tmp_path: Path) -> None:
    page = document(f"{address}#shop/orders-7", tmp_path)
    for text in ("Lag by partition", "in-3", "Why the last restart", "Conditions", "Last records of the sink"):
        assert text in page
    assert re.search(r'<path d="M0\.00 [\d.]+', page), "the chart has points"


@pytest.mark.parametrize("where", ["", "#shop/orders-7"])
def test_text_of_the_cluster_is_never_markup(address: str, tmp_path: Path, where: str) -> None:
    page = document(f"{address}{where}", tmp_path)
    assert "<img" not in page
    assert "<title>Kafka Spark jobs</title>" in page
    assert "&lt;img src=x" in page
