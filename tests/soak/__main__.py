"""``PYTHONPATH=dev python -m tests.soak --schedules 1000`` runs random schedules, up to a number or a time.

``--break-every 20`` also kills or freezes the broker, every 20 seconds on average.

``--nemesis`` runs other schedules (``tests/soak/nemesis``): partitions lose their leaders at a moment of each. It
starts brokers as it needs them, and counts from the partitions' logs. ``--broker 4.0.0`` is another version of Kafka.

``--state`` runs other schedules (``tests/soak/state``): queries of Spark that keep state, in groups of 24 that
share a driver's process. A group takes minutes, and the whole group of a seed runs.

``--matrix`` runs every cell of the fault matrix (``tests/integration/faults/matrix.py``) in place of schedules. ``make
test`` runs a part of the cells. ``--only EXPRESSION`` selects cells as pytest's ``-k`` does.

Prints a line for each failed schedule with its seed, and at the end the number of schedules and their seeds. ``--seed S
--schedules 1`` repeats a schedule. A third of the seeds run the micro-batch engine, a third the continuous engine and a
third its local pace. ``--engine`` and ``--pace`` choose for all: ``--pace local``, ``--engine Continuous --pace
two-phase``. A seed is then another schedule, so they are repeated with it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from sparkapp.model.job.spec import Engine
from tests.soak.broker_faults import BrokerFaults
from tests.soak.kinds import KINDS, Pace, chosen
from tests.soak.schedule import Work, run_schedules
from tests.soak.state.group import TOGETHER
from tests.soak.workers import Spawning

_CELLS = Path(__file__).resolve().parents[1] / "integration/faults/test_matrix.py"
_LINE_EVERY = 25
"""Schedules."""
_OVERRIDES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


def main() -> int:
    """Runs schedules or the matrix; the exit status is 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first schedule")
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3600, help="no schedule begins later")
    parser.add_argument("--workers", type=int, default=3, help="number of parallel schedules")
    parser.add_argument("--bootstrap", help="an existing broker (default: a broker of its own)")
    parser.add_argument(
        "--break-every", type=float, metavar="SECONDS", help="mean time between two faults of the broker"
    )
    engines, paces = sorted({kind.engine.value for kind in KINDS}), [pace.value for pace in Pace]
    parser.add_argument("--engine", choices=engines, help="of every schedule")
    parser.add_argument("--pace", choices=paces, help="of every schedule: how the continuous engine commits")
    parser.add_argument("--broker", metavar="VERSION", help="of Kafka, for the soak's own brokers, as 4.0.0")
    parser.add_argument("--nemesis", action="store_true", help="partitions lose their leaders (tests/soak/nemesis)")
    parser.add_argument("--state", action="store_true", help="jobs with state, with Spark")
    parser.add_argument("--matrix", action="store_true", help="run the whole fault matrix")
    parser.add_argument(
        "--only", default="", metavar="EXPRESSION", help="run the cells of the matrix whose names match"
    )
    options = parser.parse_args()
    options.kinds = chosen(
        Engine(options.engine) if options.engine else None, Pace(options.pace) if options.pace else None
    )
    if not options.kinds:
        parser.error(f"--engine {options.engine} has no pace {options.pace}")
    if options.matrix:
        return _matrix(options.only)
    # An orderly end: the broker and the workers end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.broker:
        os.environ["KAFKASPARK_KAFKA_VERSION"] = options.broker
    if options.nemesis:
        return _nemesis(options)
    if options.bootstrap:
        return _soak(options, options.bootstrap)
    from localcluster.kafka.broker import Broker

    with (
        tempfile.TemporaryDirectory() as folder,
        Broker.ephemeral(Path(folder), overrides=_OVERRIDES) as broker,
    ):
        if not options.break_every:
            return _soak(options, broker.bootstrap)
        faults = BrokerFaults(broker, seed=options.seed, every=options.break_every)
        try:
            return _soak(options, broker.bootstrap)
        finally:
            faults.end()
            print(f"the broker was killed {faults.kills} times and frozen {faults.pauses} times")


def _matrix(only: str) -> int:
    import pytest

    return int(pytest.main([str(_CELLS), "--matrix", "-q", "--durations=0", *(["-k", only] if only else [])]))


def _nemesis(options: argparse.Namespace) -> int:
    from tests.soak.nemesis.rounds import run_rounds

    began = time.monotonic()
    seeds = range(options.seed, options.seed + options.schedules)
    return report(
        (((seed,), trace) for seed, trace in run_rounds(seeds, options.kinds, began + options.seconds)), began
    )


def _soak(options: argparse.Namespace, bootstrap: str) -> int:
    began = time.monotonic()
    until = began + options.seconds
    together = TOGETHER if options.state else 1
    firsts = range(options.seed // together * together, options.seed + options.schedules, together)
    # The pool takes some hundred seeds before they are due. So both ask: this, and run_schedules.
    work = (
        Work(bootstrap, range(first, first + together), until, options.kinds, bool(options.break_every), options.state)
        for first in itertools.takewhile(lambda _: time.monotonic() < until, firsts)
    )
    # Each schedule has its own process, which ends the threads of killed attempts' clients.
    with Spawning().Pool(options.workers, maxtasksperchild=20) as pool:
        return report(pool.imap_unordered(run_schedules, work), began)


def report(traces: Iterable[tuple[Sequence[int], str | None]], began: float) -> int:
    """Prints what became of the schedules, and returns the exit status: 1 if one failed.

    :param traces: of :func:`run_schedules`, as schedules end. Those under way when the time is up end, too.
    :param began: when the soak began, by the monotonic clock.
    """
    clean: list[int] = []
    failed: list[int] = []
    said = 0
    for seeds, trace in traces:
        if trace is None:
            continue
        if trace:
            failed += seeds
            print(f"{seeds_of(seeds)} FAILED\n{trace}", flush=True)
        else:
            clean += seeds
        if (done := len(clean) + len(failed)) >= said + _LINE_EVERY:
            said = done
            print(f"{len(clean)} clean, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{len(clean)} schedules clean, {seeds_of(clean + failed)}, failed seeds: {failed or 'none'}; {seconds:.0f} s"
    )
    return 1 if failed else 0


def seeds_of(run: Iterable[int]) -> str:
    """The seeds of the schedules that have run, for the summary: ranges, as those of several workers end unevenly."""
    ranges: list[list[int]] = []
    for seed in sorted(run):
        if ranges and seed == ranges[-1][1] + 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    history = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)
    return f"seeds {history or 'none'}"


if __name__ == "__main__":
    sys.exit(main())
