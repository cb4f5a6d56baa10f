"""How many jobs an operator can manage: ``python -m bench.operator_scale --jobs 200 1000``.

The API server is real (etcd and kube-apiserver on this machine). The bench plays kubelets and drivers: it writes the
status of pods and the first report of each driver. The operator is a process with the chart's settings. Every size has
an API server and an operator of its own, and is a column of the table:

- jobs are created as fast as the API server takes them, and then a few next to the others;
- each driver runs and reports, at a pace;
- nothing changes for longer than the time between two sweeps, after every job has been looked at;
- another operator adopts every job.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.operator_scale.phases import Figures, Fleet
from tests.support.kubernetes.api_server import api_server, programs

GOALS = {
    "started a minute": "≥ 2,500",
    "resource to driver pod, all at once": "",
    "resource to driver pod, next to the fleet": "p99 ≤ 10 s",
    "CPU of a start": "",
    "CPU of a start, API server and etcd": "",
    "requests of a start": "",
    "report to status": "p99 < 2 s",
    "CPU of a report with a status": "",
    "CPU of a heartbeat": "",
    "requests a second, idle": "≤ 50",
    "CPU, idle": "",
    "memory": "< 500 MiB",
    "adoption": "",
    "requests of an adoption": "",
    "objects that it wrote": "0",
}
"""The rows of the table, in their order."""


def main() -> None:
    """Runs the bench of the options and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[200, 1000], help="sizes of the fleet")
    parser.add_argument("--pace", type=float, default=2500 / 60, help="first reports a second")
    parser.add_argument("--sweep", type=int, default=300, help="seconds between two sweeps, resyncSeconds of the chart")
    options = parser.parse_args()
    columns: dict[int, Figures] = {}
    for count in options.jobs:
        folder = Path(tempfile.mkdtemp(prefix="operator-scale-"))
        bin_folder = programs(folder / "bin")
        if bin_folder is None:
            parser.error("make cluster-up builds the API server's program")
        with api_server(folder, bin_folder) as kubeconfig:
            columns[count] = measured(kubeconfig, folder, count, pace=options.pace, sweep=options.sweep)
    print(f"\n{os.cpu_count()} processors, load {os.getloadavg()[2]:.1f} in the last 15 minutes\n")
    print(table(columns))


def measured(kubeconfig: Path, folder: Path, count: int, *, pace: float, sweep: int) -> Figures:
    """A column of the table."""
    fleet = Fleet(kubeconfig, folder, count, pace=pace, sweep=sweep)
    try:
        jobs = fleet.start()
        fleet.run(jobs)
        fleet.do_nothing()
        fleet.adopt(jobs)
    finally:
        fleet.stop()
    return fleet.figures


def table(columns: Mapping[int, Figures]) -> str:
    """The figures in Markdown."""
    head = ["", "goal", *(f"{count:,} jobs" for count in columns)]
    rows = [[measure, goal, *(each.get(measure, "") for each in columns.values())] for measure, goal in GOALS.items()]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
