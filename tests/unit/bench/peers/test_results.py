"""Medians, ratios and quantiles of the bench of peers, and its tables."""

from __future__ import annotations

import pytest

from bench.peers.page import Row, latency_table, throughput_table
from bench.peers.results import CORES, CPU, MEMORY, RATE, WHOLE, Results, Run, quantiles
from bench.peers.workload import LATENCY
from bench.spread import Spread


def run(variant: str, number: int, rate: float, workload: str = "small") -> Run:
    figures = {RATE: rate, WHOLE: rate / 2, CPU: 1.5, MEMORY: 100.0}
    return Run(workload=workload, variant=variant, round=number, figures=figures)


def results(*runs: Run, rounds: int = 3) -> Results:
    return Results(environment={}, rounds=rounds, runs=runs)


THREE = results(
    *(run("a", number, rate) for number, rate in enumerate([300_000, 100_000, 500_000])),
    *(run("b", number, rate) for number, rate in enumerate([100_000, 100_000, 1_000_000])),
)


def test_a_figure_is_the_median_with_the_ends_of_its_rounds() -> None:
    assert THREE.figure("small", "a", RATE) == Spread.of([300_000, 100_000, 500_000])
    assert THREE.figure("large", "a", RATE) is None


def test_a_ratio_is_of_the_same_round_and_not_of_two_medians() -> None:
    assert THREE.ratio("small", "a", "b", RATE) == Spread.of([3.0, 1.0, 0.5])
    assert THREE.ratio("small", "a", "a", RATE) == Spread.of([1.0, 1.0, 1.0])
    assert THREE.ratio("small", "a", "nobody", RATE) is None


def test_a_variant_that_lacks_a_round_has_no_figure_and_no_ratio() -> None:
    failed = Run(workload="small", variant="a", round=1, failure="99 records in the sink, not 100")
    some = results(run("a", 0, 300_000), failed, run("b", 0, 100_000), run("b", 1, 100_000), rounds=2)
    assert some.figure("small", "a", RATE) is None
    assert some.ratio("small", "a", "b", RATE) is None
    assert some.ratio("small", "b", "a", RATE) is None
    assert some.failures("small", "a") == ("99 records in the sink, not 100",)


def test_quantiles_are_figures_that_were_measured() -> None:
    millis = [float(number) for number in range(2000, 0, -1)]
    assert quantiles(millis) == {"p50": 1000, "p90": 1800, "p99": 1980, "p99.9": 1998}
    assert quantiles([7.0]) == {"p50": 7, "p90": 7, "p99": 7, "p99.9": 7}
    with pytest.raises(ValueError, match="no percentile"):
        quantiles([])


def test_a_table_has_spreads_ratios_and_who_did_not_run() -> None:
    rows = [
        Row(variant="a", title="first", detail="ExactlyOnce"),
        Row(variant="b", title="second", detail="AtLeastOnce"),
        Row(variant="c", title="third", detail="AtLeastOnce"),
    ]
    assert throughput_table(THREE, "small", rows, {"b": "second", "c": "third"}) == [
        "| contestant | guarantee | k records/s, warm | whole | CPU s per million | peak MiB | ÷ second | ÷ third |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        "| first | ExactlyOnce | 300 (100–500) | 150 | 1.50 | 100 | 1.00 (0.50–3.00) | – |",
        "| second | AtLeastOnce | 100 (100–1,000) | 50 | 1.50 | 100 | 1.00 | – |",
        "| third | AtLeastOnce | not run |  |  |  |  |  |",
    ]


def test_a_run_too_short_to_become_warm_has_its_other_figures() -> None:
    short = results(Run(workload="small", variant="a", round=0, figures={WHOLE: 5000, CPU: 2, MEMORY: 1}), rounds=1)
    (line,) = throughput_table(short, "small", [Row(variant="a", title="first", detail="x")], {"a": "first"})[2:]
    assert line == "| first | x | – | 5 | 2.00 | 1 | – |"


def test_the_table_of_latency_names_the_pace() -> None:
    figures = {"p50": 50.4, "p90": 60.0, "p99": 70.0, "p99.9": 1234.0, CORES: 0.25, MEMORY: 100.0}
    measured = results(Run(workload=LATENCY, variant="a, 50 ms", round=0, figures=figures), rounds=1)
    rows = [
        Row(variant="a, 50 ms", title="first", detail="50 ms"),
        Row(variant="a, 100 ms", title="first", detail="100 ms"),
    ]
    assert latency_table(measured, rows) == [
        "| contestant | commits | p50 ms | p90 ms | p99 ms | p99.9 ms | cores | peak MiB |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        "| first | 50 ms | 50 | 60 | 70 | 1,234 | 0.25 | 100 |",
        "| first | 100 ms | not run |  |  |  |  |  |",
    ]
