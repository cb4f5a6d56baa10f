"""The phases of a fleet: its jobs start, run, do nothing, and get another operator."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.operator_scale.seen import FirstSeen, server_seconds
from sparkapp.model import names
from tests.support.kubernetes.api_client import JOBS, ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess

NAMESPACE = "bench"
CLIENTS = 4
FEW = 60
"""Jobs that are created next to the fleet, one after another."""
FEW_A_SECOND = 5.0
UNTIL_SETTLED = 90.0
"""Seconds after which time alone changes no job: none has executors, and none completes another checkpoint."""
HEARTBEATS = 3
BEATING = 1000
"""Jobs whose drivers send heartbeats, so that each sends one in less than 30 s at the usual pace."""
OBJECTS = (
    "api/v1/namespaces/bench/pods", "api/v1/namespaces/bench/configmaps",
    "apis/rbac.authorization.k8s.io/v1/namespaces/bench/roles",
    "apis/rbac.authorization.k8s.io/v1/namespaces/bench/rolebindings",
    "apis/networking.k8s.io/v1/namespaces/bench/networkpolicies",
    "apis/streaming.kafkaspark.io/v1beta1/namespaces/bench/kafkasparkjobs",
)  # fmt: skip
"""What an operator that adopts jobs must not write."""

Figures = dict[str, str]
"""The rows of a column: text by measure."""


class Fleet:
    """Jobs on an API server, and the operator that manages them.

    :param count: jobs. :param pace: first reports a second. :param sweep: seconds between two sweeps.
    :ivar figures: what was measured.
    """

    def __init__(self, kubeconfig: Path, folder: Path, count: int, *, pace: float, sweep: int) -> None:
        self._kubeconfig, self._folder, self._count = kubeconfig, folder, count
        self._pace, self._sweep = pace, sweep
        self._settings = {"numbers_seconds": "5", "resync_seconds": str(sweep)}
        self.api = ApiClient(kubeconfig)
        self.api.install_definition()
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.operator = OperatorProcess(kubeconfig, NAMESPACE, folder / "operator.log", self._settings)
        self.operator.await_leading()
        self._pods = FirstSeen(self.api, f"/api/v1/namespaces/{NAMESPACE}/pods", _job_of_driver)
        self._reported = FirstSeen(self.api, JOBS.format(NAMESPACE), _job_with_report)
        self.figures: Figures = {}

    def start(self) -> list[LiveJob]:
        """All jobs are created at once, as fast as the API server takes them; then a few, next to the others."""
        jobs = [LiveJob(self.api, NAMESPACE, f"job-{number}") for number in range(self._count)]
        cpu, requests, server, began = self._cpu(), self._requests(), server_seconds(), time.monotonic()
        asked = self._each(jobs, lambda job: job.create())
        await_that("every driver is there", lambda: len(self._pods.at) >= self._count, seconds=1800, pause=0.2)
        took = max(self._pods.at.values()) - began
        self._note("started a minute", f"{self._count / took * 60:.0f}")
        self._note("resource to driver pod, all at once", _spread(asked, self._pods.at))
        self._note("CPU of a start", f"{(self._cpu() - cpu) / self._count * 1000:.0f} ms")
        self._note("CPU of a start, API server and etcd", f"{(server_seconds() - server) / self._count * 1000:.0f} ms")
        self._note("requests of a start", f"{(self._requests() - requests) / self._count:.1f}")
        self._rest()
        few = [LiveJob(self.api, NAMESPACE, f"few-{number}") for number in range(FEW)]
        asked = self._each(few, lambda job: job.create(), pace=FEW_A_SECOND)
        await_that("the few drivers are there", lambda: asked.keys() <= self._pods.at.keys(), seconds=600, pause=0.2)
        self._note("resource to driver pod, next to the fleet", _spread(asked, self._pods.at))
        return [*jobs, *few]

    def run(self, jobs: Sequence[LiveJob]) -> None:
        """Each pod runs, and its driver reports for the first time, at the pace."""
        state = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
        self._each(jobs, lambda job: job.pod_status(1, "Running", state))
        self._rest()
        cpu = self._cpu()
        asked = self._each(jobs, lambda job: job.report(1, checkpoint_id=1), pace=self._pace)
        await_that("each report is in its status", lambda: len(self._reported.at) >= len(jobs), seconds=1800, pause=0.2)
        self._note("report to status", _spread(asked, self._reported.at))
        self._note("CPU of a report with a status", f"{(self._cpu() - cpu) / len(jobs) * 1000:.1f} ms")
        time.sleep(UNTIL_SETTLED)
        self._rest()
        beating = jobs[:BEATING]
        self._beat(beating, "2026-11-21T12:00:10Z")  # after such a silence it is planned
        self._rest()
        cpu = self._cpu()
        for beat in range(HEARTBEATS):
            self._beat(beating, f"2026-11-21T12:00:2{beat}Z")
        self._note("CPU of a heartbeat", f"{(self._cpu() - cpu) / len(beating) / HEARTBEATS * 1000:.2f} ms")

    def _beat(self, jobs: Sequence[LiveJob], updated_at: str) -> None:
        self._each(jobs, lambda job: job.report(1, checkpoint_id=1, updated_at=updated_at), pace=self._pace)

    def do_nothing(self) -> None:
        """No job changes for two sweeps: the first looks at every job, for which no list was before its last look."""
        time.sleep(self._sweep * 1.6)
        self._rest()
        cpu, requests, began = self._cpu(), self._requests(), time.monotonic()
        time.sleep(self._sweep * 1.1)
        took = time.monotonic() - began
        self._note("requests a second, idle", f"{(self._requests() - requests) / took:.2f}")
        self._note("CPU, idle", f"{(self._cpu() - cpu) / took * 100:.0f} %")
        self._note("memory", f"{_metric(self.operator, 'process_resident_memory_bytes') / 2**20:.0f} MiB")

    def adopt(self, jobs: Sequence[LiveJob]) -> None:
        """Another operator takes over."""
        self.operator.stop()
        versions = self._versions()
        began = time.monotonic()
        self.operator = OperatorProcess(self._kubeconfig, NAMESPACE, self._folder / "second.log", self._settings)
        done = 'kafkaspark_operator_reconcile_duration_seconds_count{result="ok"}'
        await_that(
            "every job is adopted", lambda: _metric(self.operator, done) >= len(jobs), seconds=1800, pause=10
        )  # fmt: skip
        self._note("adoption", f"{time.monotonic() - began:.0f} s")
        self._note("requests of an adoption", f"{self._requests() / len(jobs):.1f}")
        self._note("objects that it wrote", str(len(self._versions() - versions)))

    def stop(self) -> None:
        """Ends the operator and the watches."""
        self._pods.stop()
        self._reported.stop()
        self.operator.stop()

    def _note(self, measure: str, figure: str) -> None:
        self.figures[measure] = figure
        print(f"{self._count} jobs: {measure}: {figure} (load {os.getloadavg()[0]:.1f})", flush=True)

    def _each(
        self, jobs: Sequence[LiveJob], act: Callable[[LiveJob], object], *, pace: float = 0
    ) -> dict[str, float]:  # fmt: skip
        """Does it for each job, with all clients; when each was done, by name.

        :param pace: jobs a second; 0 for as fast as possible.
        """
        began, done = time.monotonic(), {}

        def at_its_time(place: int) -> None:
            job = jobs[place]
            if pace:
                time.sleep(max(0.0, began + place / pace - time.monotonic()))
            act(job)
            done[job.name] = time.monotonic()

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(at_its_time, range(len(jobs))))
        return done

    def _rest(self) -> None:
        """Returns when the operator has nothing to do."""

        def rests() -> bool:
            before = self._cpu()
            time.sleep(3)
            return self._cpu() - before < 0.3

        await_that("the operator rests", rests, seconds=3600)

    def _cpu(self) -> float:
        """By the kernel: a page of metrics costs the operator CPU itself."""
        return self.operator.cpu_seconds()

    def _requests(self) -> float:
        lines = self.operator.read("/metrics").splitlines()
        name = "kafkaspark_operator_api_requests_total{"
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def _versions(self) -> set[str]:
        found = set()
        for path in OBJECTS:
            more = ""
            while True:
                answer = self.api.call("GET", f"/{path}?limit=1000&continue={more}", accept=METADATA)
                found |= {
                    f"{each['metadata']['uid']} {each['metadata']['resourceVersion']}" for each in answer["items"] or ()
                }
                more = answer["metadata"].get("continue", "")
                if not more:
                    break
        return found


METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def _job_of_driver(pod: Mapping[str, Any]) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get(names.LABEL_JOB, "")) if labels.get(names.LABEL_ROLE) == names.ROLE_DRIVER else ""


def _job_with_report(job: Mapping[str, Any]) -> str:
    """By the checkpoint: without executors such a job is not Ready for long."""
    known = ((job.get("status") or {}).get("checkpoint") or {}).get("id")
    return str(job["metadata"]["name"]) if known else ""


def _metric(operator: OperatorProcess, name: str) -> float:
    for line in operator.read("/metrics").splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


def _spread(asked: Mapping[str, float], seen: Mapping[str, float]) -> str:
    """Median and 99th percentile of the times between."""
    times = sorted(max(0.0, seen[name] - at) for name, at in asked.items())
    return f"p50 {times[len(times) // 2]:.1f} s, p99 {times[int(len(times) * 0.99)]:.1f} s"
