"""The results as plots. Only this module imports matplotlib, which ``make bench-peers`` installs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from bench.peers.page import Row
from bench.peers.results import QUANTILES, RATE, Results
from bench.peers.workload import LATENCY

_INCHES_A_ROW = 0.45
_INCHES = 8.0
_MARGIN_INCHES = 1.1


def plot_rates(results: Results, workload: str, rows: Sequence[Row], title: str, file: Path) -> None:
    """Bars of the warm rates, with a line from the slowest to the fastest round.

    :param file: PNG to write.
    """
    ran = [(row, figure) for row in rows if (figure := results.figure(workload, row.variant, RATE)) is not None]
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
    axes.set(xlabel="thousand records a second, warm: median, slowest and fastest round", title=title)
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
