"""The results as plots. Only this module imports matplotlib, which ``make bench-peers`` installs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.peers.page import Row, Section
from bench.peers.results import QUANTILES, RATE, Results
from bench.peers.workload import BY_PARALLELISM, BY_PARTITIONS, GROWTH, LATENCY, Step

_INCHES_A_ROW = 0.45
_INCHES = 8.0
_MARGIN_INCHES = 1.1


def plot_rates(results: Results, section: Section, file: Path) -> None:
    """Bars of the rates, with a line from the slowest to the fastest round.

    :param file: PNG to write.
    """
    found = ((row, results.figure(section.workload, row.variant, section.rate)) for row in section.rows)
    ran = [(row, rate) for row, rate in found if rate is not None]
    figure, axes = plt.subplots(figsize=(_INCHES, _MARGIN_INCHES + _INCHES_A_ROW * len(ran)), layout="constrained")
    medians = [rate.median / 1000 for _, rate in ran]
    axes.barh(
        [f"{row.title}\n{row.detail}" for row, _ in ran], medians,
        xerr=[
            [median - rate.lowest / 1000 for median, (_, rate) in zip(medians, ran, strict=True)],
            [rate.highest / 1000 - median for median, (_, rate) in zip(medians, ran, strict=True)],
        ],
        color=["#1f77b4" if row.title.startswith("ours") else "#b0b0b0" for row, _ in ran], capsize=3,
    )  # fmt: skip
    axes.invert_yaxis()
    warm = ", warm" if section.rate == RATE else ""
    axes.set(xlabel=f"thousand records a second{warm}: median, slowest and fastest round", title=section.title)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def plot_latency(results: Results, rows: Sequence[Row], file: Path) -> None:
    """Quantiles of every contestant at each pace, on a logarithmic axis.

    :param file: PNG to write.
    """
    ran = [row for row in rows if results.figure(LATENCY, row.variant, "p50") is not None]
    figure, axes = plt.subplots(figsize=(_INCHES, _MARGIN_INCHES + _INCHES_A_ROW * len(ran)), layout="constrained")
    for name in QUANTILES:
        found = [results.figure(LATENCY, row.variant, name) for row in ran]
        axes.plot([each.median for each in found if each is not None], range(len(ran)), "o", label=name)
    axes.set_yticks(range(len(ran)), [f"{row.title}\n{row.detail}" for row in ran])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="milliseconds, median of the rounds", title="End to end, at a steady rate")
    axes.grid(axis="x", which="both", alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=120)
    plt.close(figure)


def plot_growth(results: Results, file: Path) -> None:
    """The warm rate over the parallelism, and over the number of partitions.

    :param file: PNG to write.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(_INCHES, _INCHES / 2), sharey=True, layout="constrained")
    usual = BY_PARTITIONS[0].parallelism, BY_PARALLELISM[0].partitions
    _plot_steps(left, results, [(step.parallelism, step) for step in BY_PARALLELISM])
    left.set(
        xlabel=f"parallelism, with {usual[1]} partitions", ylabel="thousand records a second, warm", ylim=(0, None)
    )
    _plot_steps(right, results, [(step.partitions, step) for step in BY_PARTITIONS])
    right.set(xlabel=f"partitions, with a parallelism of {usual[0]}")
    figure.suptitle("Growth of the continuous engine, exactly once: median, slowest and fastest round")
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _plot_steps(axes: Axes, results: Results, steps: Sequence[tuple[int, Step]]) -> None:
    ran = [(size, rate) for size, step in steps if (rate := results.figure(GROWTH, step.variant, RATE)) is not None]
    sizes, medians = [size for size, _ in ran], [rate.median / 1000 for _, rate in ran]
    axes.errorbar(
        sizes, medians,
        yerr=[
            [median - rate.lowest / 1000 for median, (_, rate) in zip(medians, ran, strict=True)],
            [rate.highest / 1000 - median for median, (_, rate) in zip(medians, ran, strict=True)],
        ],
        fmt="o-", capsize=3,
    )  # fmt: skip
    axes.set(xscale="log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
