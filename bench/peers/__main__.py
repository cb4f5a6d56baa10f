"""The engine and its peers, Kafka to Kafka: throughput, CPU time, memory and latency, in interleaved rounds.

    make bench-peers

That takes more than an hour. A quick try:

    make bench-peers ARGS="--rounds 1 --records 100000 --only ours-exactly-once spark --workloads small"

With ``--publish`` it also writes the pages of :data:`bench.peers.page.PAGES` with their plots into docs/internals.

All contestants use one broker. Each contestant is a program of its own that stays for all rounds, so later rounds find
compiled code. After each run a ``read_committed`` reader counts the sink, outside of the time; a wrong count is no
result. *warm* begins when the sink's log has a fifth of the records; *whole* begins with the task.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.broker import broker_at, wake
from bench.peers.contestants import CONTESTANTS, Contestant
from bench.peers.growth_rounds import GrowthRounds
from bench.peers.latency_rounds import LatencyRounds
from bench.peers.machine import environment
from bench.peers.page import PAGES, page, sections
from bench.peers.results import Results, Run
from bench.peers.rounds import Programs, ThroughputRounds
from bench.peers.workload import GROWTH, LATENCY, WORKLOADS

ARTIFACTS = Path("artifacts/bench-peers")
INTERNALS = Path("docs/internals")
LEAST_ROUNDS = 3
NAMES = [*(each.name for each in WORKLOADS), LATENCY, GROWTH]


def main() -> int:
    """Runs the bench of the options; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, help="of every workload; default: each workload's own number")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=[each.name for each in CONTESTANTS], metavar="CONTESTANT",
                        default=[each.name for each in CONTESTANTS], help="by default all: %(default)s")  # fmt: skip
    parser.add_argument("--workloads", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rate", type=int, default=1000, help="records a second, for latency")
    parser.add_argument("--seconds", type=float, default=20, help="of a run that count, for latency")
    parser.add_argument("--publish", action="store_true", help="write the pages and plots of docs/internals")
    options = parser.parse_args()
    if options.publish and (options.records or options.rounds < LEAST_ROUNDS):
        parser.error(f"--publish needs {LEAST_ROUNDS} rounds or more, and each workload's own number of records")
    contestants = [each for each in CONTESTANTS if each.name in options.only]
    results = measure(options, contestants)
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    (ARTIFACTS / "results.json").write_text(json.dumps(results.as_json(), indent=2) + "\n")
    for section in sections(results):
        print("\n".join(["", section.title, "", *section.table(results)]))
    if options.publish:
        publish(results)
    return int(any(run.failure for run in results.runs))


def measure(options: argparse.Namespace, contestants: list[Contestant]) -> Results:
    """All workloads of the options on one temporary broker."""
    runs: list[Run] = []
    programs = Programs(parallelism=options.parallelism, logs=ARTIFACTS)
    with broker_at(None) as bootstrap:
        wake(bootstrap)
        try:
            for workload in WORKLOADS:
                if workload.name not in options.workloads:
                    continue
                rounds = ThroughputRounds(
                    bootstrap=bootstrap, programs=programs, workload=workload,
                    contestants=[each for each in contestants if workload.shape in each.shapes],
                    records=options.records or workload.records, parallelism=options.parallelism,
                )  # fmt: skip
                for run in rounds.run(options.rounds):
                    runs.append(run)
                    tell(run)
            if LATENCY in options.workloads:
                latency = LatencyRounds(
                    bootstrap=bootstrap, programs=programs, contestants=contestants,
                    parallelism=options.parallelism, rate=options.rate, seconds=options.seconds,
                )  # fmt: skip
                for run in latency.run(options.rounds):
                    runs.append(run)
                    tell(run)
        finally:
            programs.close_all()
        if GROWTH in options.workloads:
            for run in GrowthRounds(bootstrap=bootstrap, records=options.records, logs=ARTIFACTS).run(options.rounds):
                runs.append(run)
                tell(run)
    return Results(environment=environment(vars(options)), rounds=options.rounds, runs=tuple(runs))


def tell(run: Run) -> None:
    """Prints a run when it is over."""
    figures = "   ".join(f"{name} {figure:,.1f}" for name, figure in run.figures.items())
    print(f"round {run.round + 1}  {run.workload:8}{run.variant:36} {run.failure or figures}", flush=True)


def publish(results: Results) -> None:
    """Writes the pages of the workloads that ran, with their plots, into the documentation."""
    from bench.peers.plots import plot_growth, plot_latency, plot_rates

    for section in sections(results):
        file = INTERNALS / section.plot
        if section.workload == LATENCY:
            plot_latency(results, section.rows, file)
        elif section.workload == GROWTH:
            plot_growth(results, file)
        else:
            plot_rates(results, section, file)
    for each in PAGES:
        if any(results.ran(workload) for workload in each.workloads):
            (INTERNALS / each.file).write_text(page(results, each))


if __name__ == "__main__":
    sys.exit(main())
