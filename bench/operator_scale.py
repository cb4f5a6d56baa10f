"""How many jobs an operator can manage: ``python -m bench.operator_scale --jobs 1000``.

The API server is real (etcd and kube-apiserver on this machine, no kubelet: pods stay Pending). The operator is a
process. Some clients create resources as fast as they can. The bench measures three phases:

- the time from each resource to its driver pod;
- the load of a report of each job;
- how long a new operator needs to look at every job without changing any.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafkasparkjob_operator.clock import parse_time
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server import api_server, programs
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess

NAMESPACE = "bench"
CLIENTS = 4


def main() -> None:
    """Runs the bench of the options and prints the phases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="operator-scale-"))
    bin_folder = programs(folder / "bin")
    if bin_folder is None:
        parser.error("make cluster-up builds the API server's program")
    with api_server(folder, bin_folder) as kubeconfig:
        measure(kubeconfig, folder, options.jobs)


def measure(kubeconfig: Path, folder: Path, count: int) -> None:
    """Creates, reports, restarts."""
    api = ApiClient(kubeconfig)
    api.install_definition()
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    jobs = [LiveJob(api, NAMESPACE, f"job-{number}") for number in range(count)]
    operator = OperatorProcess(kubeconfig, NAMESPACE, folder / "operator.log", {"numbers_seconds": "5"})
    operator.await_leading()
    idle = _metric(operator, "process_resident_memory_bytes") / 2**20

    began, cpu = time.monotonic(), _cpu(operator)
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda job: job.create(), jobs))
    created = time.monotonic() - began
    await_that("every driver is there", lambda: _drivers(operator) == count, seconds=600, pause=1)
    took = time.monotonic() - began
    print(f"{count} jobs created in {created:.1f} s, every driver pod there after {took:.1f} s")
    print(f"{count / took * 60:.0f} jobs/min, {(_cpu(operator) - cpu) / count * 1000:.0f} ms CPU a job")
    latencies = sorted(_latencies(api, count))
    middle, late = statistics.median(latencies), latencies[int(count * 0.99)]
    print(f"resource to driver pod: p50 {middle:.0f} s, p99 {late:.0f} s (whole seconds)")

    state = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda job: job.pod_status(1, "Running", state), jobs))
        began, cpu = time.monotonic(), _cpu(operator)
        list(pool.map(lambda job: job.report(1, checkpoint_id=1), jobs))
        wrote = time.monotonic() - began
    await_that("every job is ready", lambda: _ready(operator) == count, seconds=600, pause=1)
    lag = max(time.monotonic() - began - wrote, 0)
    print(f"{count} reports in {wrote:.1f} s, the last status {lag:.1f} s later")
    print(f"{(_cpu(operator) - cpu) / count * 1000:.1f} ms CPU a report")
    memory = _metric(operator, "process_resident_memory_bytes") / 2**20
    print(f"memory: {idle:.0f} MiB idle, {memory:.0f} MiB with {count} jobs")

    operator.stop()
    versions = _versions(api)
    began = time.monotonic()
    second = OperatorProcess(kubeconfig, NAMESPACE, folder / "second.log")
    name = 'kafkaspark_operator_reconcile_duration_seconds_count{result="ok"}'
    await_that("every job is adopted", lambda: _metric(second, name) >= count, seconds=600, pause=1)
    print(f"a new operator looked at all {count} jobs {time.monotonic() - began:.1f} s after its start")
    print(f"objects it wrote: {len(_versions(api) - versions)}")
    second.stop()


def _drivers(operator: OperatorProcess) -> int:
    return int(_metric(operator, "kafkaspark_operator_job_submit_latency_seconds_count"))


def _cpu(operator: OperatorProcess) -> float:
    return _metric(operator, "process_cpu_seconds_total")


def _latencies(api: ApiClient, count: int) -> list[float]:
    pods = {
        pod["metadata"]["labels"]["kafkaspark.io/job"]: pod for pod in api.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
    }
    jobs = api.items(f"/apis/streaming.kafkaspark.io/v1beta1/namespaces/{NAMESPACE}/kafkasparkjobs")
    assert len(jobs) == count
    result = []
    for job in jobs:
        made = parse_time(pods[job["metadata"]["name"]]["metadata"]["creationTimestamp"])
        asked = parse_time(job["metadata"]["creationTimestamp"])
        assert made is not None
        assert asked is not None
        result.append((made - asked).total_seconds())
    return result


def _versions(api: ApiClient) -> set[str]:
    paths = ("/api/v1/namespaces/{}/pods", "/apis/streaming.kafkaspark.io/v1beta1/namespaces/{}/kafkasparkjobs")
    return {
        f"{item['metadata']['uid']} {item['metadata']['resourceVersion']}"
        for path in paths
        for item in api.items(path.format(NAMESPACE))
    }


def _metric(operator: OperatorProcess, name: str) -> float:
    for line in operator.read("/metrics").splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


def _ready(operator: OperatorProcess) -> int:
    lines = operator.read("/metrics").splitlines()
    return sum(line.startswith("kafkaspark_job_ready{") and line.endswith(" 1.0") for line in lines)


if __name__ == "__main__":
    main()
