"""What a tenant's noise costs another tenant: ``python -m bench.noisy_neighbours --resources 5000``.

The API server is real (etcd and kube-apiserver on this machine, no kubelet: pods stay Pending). The operator is a
process that watches two namespaces. The bench measures jobs of the quiet namespace twice, alone and under noise:

- the time from a resource to its driver pod;
- the time from a report to the status that shows it;
- the time of a single request, which tells how busy the API server itself is.

The noise has fixed rates, so that the API server of this machine does not become the subject. It is new resources up to
their number, reports with 20 new events each, and reports of 900 KiB. A job in a crash loop and requests to
``/metrics`` belong to it, too.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sparkapp.model import names
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.report import DriverState, Report, ReportEvent, encode_report
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server import api_server, programs
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_fixture import FAILED
from tests.support.kubernetes.operator_process import OperatorProcess

NOISY, QUIET = "noisy", "quiet"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{QUIET}/leases/kafkaspark-operator"
POLL_SECONDS = 0.01


def main() -> None:
    """Runs the bench of the options and prints both measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resources", type=int, default=5000, help="resources of the noisy tenant")
    parser.add_argument("--creates", type=float, default=20, help="new resources a second")
    parser.add_argument("--reports", type=float, default=10, help="reports with 20 events, a second")
    parser.add_argument("--large", type=float, default=1, help="reports of 900 KiB, a second")
    parser.add_argument("--scrapes", type=float, default=10, help="requests to /metrics, a second")
    parser.add_argument("--samples", type=int, default=100, help="jobs of the quiet tenant, of each measurement")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="noisy-neighbours-"))
    bin_folder = programs(folder / "bin")
    if bin_folder is None:
        parser.error("make cluster-up builds the API server's program")
    with api_server(folder, bin_folder) as kubeconfig:
        measure(kubeconfig, folder, options)


def measure(kubeconfig: Path, folder: Path, options: argparse.Namespace) -> None:
    """Measures the quiet tenant alone, then under noise, then when all resources are there."""
    api = ApiClient(kubeconfig)
    api.install_definition()
    for namespace in (NOISY, QUIET):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    settings = {"watch_namespaces": f"{NOISY},{QUIET}", "numbers_seconds": "0"}
    operator = OperatorProcess(kubeconfig, QUIET, folder / "operator.log", settings)
    operator.await_leading()
    shown = LiveJob(api, QUIET, "shown")
    shown.create()
    shown.run(1, hold=False)
    cpu = partial(_cpu_seconds, operator)
    alone = sample("alone", api, shown, options.samples)
    with ThreadPoolExecutor(6) as pool, ExitStack() as stack:
        noise = Noise(api, operator, options.resources)
        for act, rate in (
            (noise.create, options.creates), (noise.flood, options.reports), (noise.write_large, options.large),
            (noise.scrape, options.scrapes), (noise.crash, 1.0), (noise.note_memory, 1.0),
        ):  # fmt: skip
            stack.enter_context(repeated(act, rate, pool))
        used, began = cpu(), time.monotonic()
        noisy = sample("under noise", api, shown, options.samples)
        print(f"processor of the operator under noise: {(cpu() - used) / (time.monotonic() - began):.0%}")
        await_that("all resources are there", lambda: noise.created >= options.resources, seconds=3600, pause=1)
        full = sample(f"with {options.resources} resources and noise", api, shown, options.samples)
    for name, found in (("under noise", noisy), ("with all resources", full)):
        ratios = ", ".join(f"{what} {found[what] / alone[what]:.2f}" for what in alone)
        print(f"{name}, as a multiple of alone: {ratios}")
    lease = api.call("GET", LEASE)["spec"]
    lost = operator.log.count("lost the lease")
    print(f"Lease: {lease['leaseTransitions']} transitions, lost {lost} times")
    print(f"memory of the operator: at most {max(noise.memory):.0f} MiB (limit of the chart: 512 MiB)")
    events = api.items(f"/api/v1/namespaces/{NOISY}/events")
    reported = sum(event["reason"] == "PartitionAdded" for event in events)
    print(f"events of the flood: {noise.events} reported, {reported} published")
    print(f"attempts of the crash loop: {noise.attempt}")
    operator.stop()


def _cpu_seconds(operator: OperatorProcess) -> float:
    lines = operator.read("/metrics").splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("process_cpu_seconds_total "))


def sample(name: str, api: ApiClient, shown: LiveJob, count: int) -> dict[str, float]:
    """Starts jobs and writes reports of the quiet tenant, one after the other; prints and returns the 99th percentiles,
    in seconds."""
    starts, lags, requests = [], [], []
    for number in range(count):
        job = LiveJob(api, QUIET, f"job-{time.monotonic_ns()}")
        began = time.monotonic()
        job.create()
        path = f"{job.pods_path}/{names.driver_pod(job.name, 1)}"
        await_that("the driver pod", partial(api.get, path), pause=POLL_SECONDS)
        starts.append(time.monotonic() - began)
        checkpoint = int(shown.status["checkpoint"]["id"]) + 1 + number
        began = time.monotonic()
        shown.report(1, checkpoint_id=checkpoint)
        await_that("the status", partial(_shows, shown, checkpoint), pause=POLL_SECONDS)
        lags.append(time.monotonic() - began)
        began = time.monotonic()
        api.call("DELETE", job.path)
        requests.append(time.monotonic() - began)
    result = {}
    for what, seconds in (("start", starts), ("status", lags), ("request", requests)):
        ordered = sorted(seconds)
        result[what] = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        print(f"{name}: {what} p50 {statistics.median(ordered) * 1000:.0f} ms, p99 {result[what] * 1000:.0f} ms")
    return result


def _shows(job: LiveJob, checkpoint: int) -> bool:
    return bool(job.status["checkpoint"]["id"] == checkpoint)


class Noise:
    """The noisy tenant."""

    def __init__(self, api: ApiClient, operator: OperatorProcess, resources: int) -> None:
        self._api, self._operator, self._resources = api, operator, resources
        self._flooding, self._large, self._crashing = (
            LiveJob(api, NOISY, name) for name in ("flooding", "large", "crashing")
        )
        for job in (self._flooding, self._large):
            job.create()
            job.run(1, hold=False)
        self._crashing.create(restartPolicy={"backoff": {"initialSeconds": 0, "maxSeconds": 1}})
        self._uid = self._flooding.uid()
        self._path = f"{self._flooding.config_maps_path}/{names.report_config_map('{}')}"
        self._numbers = itertools.count(1)
        self.created = self.events = 0
        self.attempt = 1
        self.memory = [0.0]

    def create(self) -> None:
        if self.created < self._resources:
            LiveJob(self._api, NOISY, f"job-{self.created}").create()
            self.created += 1

    def flood(self) -> None:
        first, time_now = next(self._numbers) * 20, _now()
        self.events += 20
        events = tuple(
            ReportEvent(
                sequence=number, type="Warning", reason=DriverEvent.PARTITION_ADDED, message="flood", time=time_now
            )
            for number in range(first, first + 20)
        )
        report = Report(job_uid=self._uid, attempt=1, state=DriverState.RUNNING, updated_at=time_now, events=events)
        self._write("flooding", encode_report(report))

    def write_large(self) -> None:
        self._write("large", f"{next(self._numbers):09}" * 100_000)

    def _write(self, job: str, text: str) -> None:
        self._api.merge(self._path.format(job), {"data": {names.REPORT_KEY: text}})

    def scrape(self) -> None:
        self._operator.read("/metrics")

    def crash(self) -> None:
        """Ends the driver of the newest attempt, as soon as it is there."""
        path = f"{self._crashing.pods_path}/{names.driver_pod('crashing', self.attempt)}"
        if self._api.get(path) is not None:
            self._crashing.ends(self.attempt, FAILED)
            self.attempt += 1

    def note_memory(self) -> None:
        for line in self._operator.read("/metrics").splitlines():
            if line.startswith("process_resident_memory_bytes "):
                self.memory.append(float(line.split()[-1]) / 2**20)


def _now() -> str:
    """The operator publishes no event that Kubernetes would have forgotten by now."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def repeated(act: Callable[[], Any], rate: float, pool: ThreadPoolExecutor) -> Iterator[None]:
    """Acts at this rate, or as often as it can, until the end of the block."""
    stop = threading.Event()

    def run() -> None:
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            act()
            due = max(due + 1 / rate, time.monotonic() - 1)

    running = pool.submit(run)
    try:
        yield
    finally:
        stop.set()
        running.result(120)


if __name__ == "__main__":
    main()
