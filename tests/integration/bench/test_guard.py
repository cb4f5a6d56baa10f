"""The continuous engine stays faster than Spark's own connector, with a bound that only a defect exceeds."""

from __future__ import annotations

from pathlib import Path

from bench.peers.contestants import CONTESTANTS
from bench.peers.results import RATE, Results, Run
from bench.peers.rounds import Programs, ThroughputRounds
from bench.peers.workload import WORKLOADS

RECORDS_TO_START, RECORDS = 100_000, 1_000_000
"""The first round pays for the start of both programs, and is not judged."""
LEAST_RATIO = 1.5
"""About four was measured. Both contestants run in turns, so other load on the machine affects both."""


def test_it_copies_exactly_once_faster_than_sparks_connector_copies_at_least_once(broker: str, tmp_path: Path) -> None:
    programs = Programs(parallelism=2, logs=tmp_path)

    def run(records: int) -> tuple[Run, ...]:
        rounds = ThroughputRounds(
            bootstrap=broker, programs=programs, workload=WORKLOADS[0], records=records, parallelism=2,
            contestants=[each for each in CONTESTANTS if each.name in {"ours-continuous", "spark"}],
        )  # fmt: skip
        return tuple(rounds.run(1))

    try:
        run(RECORDS_TO_START)
        runs = run(RECORDS)
    finally:
        programs.close_all()
    assert [run.failure for run in runs] == [""] * len(runs)
    ratio = Results(environment={}, rounds=1, runs=runs).ratio(WORKLOADS[0].name, "ours-continuous", "spark", RATE)
    assert ratio is not None
    assert ratio.highest >= LEAST_RATIO, [(run.variant, run.figures) for run in runs]
