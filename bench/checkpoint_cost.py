"""The cost of exactly once: ExactlyOnce against AtLeastOnce, at a checkpoint each second, in paired runs.

    PYTHONPATH=dev python -m bench.checkpoint_cost                  # a temporary broker
    python -m bench.checkpoint_cost --bootstrap host:9092 --pairs 10 --output json
    python -m bench.checkpoint_cost --engine Continuous --records 6000000

One broker, one Spark session, one topic. A run copies the whole topic, in the order A B B A A B B A … The first four
runs are not counted: they warm up, and show how many records make a checkpoint of ``--interval`` seconds. There is
always a backlog, so checkpoints follow each other without a pause. Each ratio is of two adjacent runs; the goal is at
least 0.97. The checkpoint store is in memory, so a write to it costs nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from bench.broker import broker_at
from bench.spread import PairedRatio, Spread, alternating
from bench.topic_copy import Run, TopicCopy, interleaved
from sparkapp.dataplane.batch import implementation
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.spec import Engine

GOAL = 0.97
A, B = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE
_WARM_UPS = 2
"""Runs of each guarantee that are not counted. In the first run of either the broker's JVM compiles its code."""


def main() -> int:
    """Runs the bench of the options and prints the outcome; the exit status does not judge it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--engine", type=Engine, choices=list(Engine), default=Engine.MICRO_BATCH)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds of a checkpoint")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with broker_at(options.bootstrap) as bootstrap:
        copy = TopicCopy(
            bootstrap=bootstrap, records=options.records, size=options.size, partitions=options.partitions,
            parallelism=options.parallelism, engine=options.engine,
        )  # fmt: skip
        batch, runs = measure(copy, options)
    report(batch, runs, options)
    return 0


def measure(copy: TopicCopy, options: argparse.Namespace) -> tuple[int, list[tuple[Run, Run]]]:
    """Runs A and B alternately.

    :returns: the records of a checkpoint, and the runs of ExactlyOnce and AtLeastOnce, pair by pair.
    """
    source = copy.topic()
    copy.load(source)
    spark = copy.session()
    try:
        # With a fifth of the records in a checkpoint four checkpoints remain to measure. The slower guarantee decides.
        first = [
            copy.run(spark, source, delivery_guarantee, batch=max(1, copy.records // 5))
            for delivery_guarantee in (B, A) * _WARM_UPS
        ]
        batch = batch_of(min(run.warm for run in first[-2:]), options.interval, copy.records)
        print(f"{batch:,} records a checkpoint; batch path: {implementation()}", file=progress(options), flush=True)
        rounds = (
            ((guarantee.value, copy.run(spark, source, guarantee, batch=batch)) for guarantee in order)
            for order in alternating(options.pairs, A, B)
        )
        runs = interleaved(rounds, progress(options))
    finally:
        spark.stop()
    return batch, list(zip(runs[A.value], runs[B.value], strict=True))


def batch_of(rate: float, interval: float, records: int) -> int:
    """Records of a checkpoint that takes ``interval`` seconds at ``rate``; few enough for three checkpoints a run."""
    return max(1, min(round(rate * interval), records // 3))


def checkpoint_seconds(run: Run) -> list[float]:
    """Seconds of each checkpoint but the first, since the end of the previous checkpoint."""
    return [later - earlier for earlier, later in zip(run.ends, run.ends[1:], strict=False)]


def report(batch: int, runs: Sequence[tuple[Run, Run]], options: argparse.Namespace) -> None:
    """Prints the ratios and where the time goes."""
    ratio = PairedRatio.of([(a.warm, b.warm) for a, b in runs])
    by_guarantee = {A.value: [a for a, _ in runs], B.value: [b for _, b in runs]}
    seconds = {
        name: Spread.of([took for run in found for took in checkpoint_seconds(run)])
        for name, found in by_guarantee.items()
    }
    commits = {
        name: Spread.of([checkpoint.commit_millis for run in found for checkpoint in run.completed[1:]])
        for name, found in by_guarantee.items()
    }
    if options.output == "json":
        body = {
            "records": options.records, "recordsACheckpoint": batch, "batchPath": implementation(),
            "ratios": ratio.ratios, "mean": ratio.mean, "error": ratio.error, "median": ratio.median, "goal": GOAL,
            "recordsPerSecond": {name: [run.warm for run in found] for name, found in by_guarantee.items()},
            "checkpointSeconds": {name: spread and asdict(spread) for name, spread in seconds.items()},
            "commitMillis": {name: spread and asdict(spread) for name, spread in commits.items()},
        }  # fmt: skip
        print(json.dumps(body, indent=2))
        return
    for name, found in by_guarantee.items():
        rate, took, commit = Spread.of([run.warm for run in found]), seconds[name], commits[name]
        if rate is not None and took is not None and commit is not None:
            print(
                f"{name:14} {rate.median:>10,.0f} records/s; a checkpoint took {took.median:.2f} s "
                f"(p95 {took.p95:.2f}), its commits {commit.median:.0f} ms (p95 {commit.p95:.0f})"
            )
    print(
        f"ExactlyOnce / AtLeastOnce: {ratio.mean:.3f} ± {ratio.error:.3f} (standard error, {len(ratio.ratios)} "
        f"pairs; median {ratio.median:.3f}, {min(ratio.ratios):.3f} to {max(ratio.ratios):.3f}); goal: {GOAL} or more"
    )


def progress(options: argparse.Namespace) -> TextIO:
    """Where progress is printed: not among an outcome in JSON."""
    return sys.stderr if options.output == "json" else sys.stdout


if __name__ == "__main__":
    sys.exit(main())
