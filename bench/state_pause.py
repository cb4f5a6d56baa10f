"""The pause of a rescale that divides state, over the size of the state: a table, and a plot.

    PYTHONPATH=dev python -m bench.state_pause --plot docs/pictures/state-pause.png

Each point is a job of its own (:mod:`bench.state_cost`), with small rows or with rows of a kibibyte. It takes in all
keys, and then it has a dozen checkpoints in which 1 % of them change. So its state is in a snapshot and some changes,
as that of a job in service is. It ends. Its next attempt divides two partitions of state into four, before its first
records. In the last curve the number of partitions is fixed, and nothing is divided.
"""

from __future__ import annotations

import argparse
import json
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.broker import broker_at, wake
from bench.engine_job import engine_session
from bench.state_cost import AGGREGATION, NOTES, StateCost

_MAINTENANCE = {"spark.sql.streaming.stateStore.maintenanceInterval": "3s"}
"""Spark makes a snapshot in the tenth checkpoint, and uploads it within a minute by default."""
_KIBIBYTE = 1024
_SMALL_ROW = 40
"""Bytes of a key and a count in Spark's form."""
_CHECKPOINTS, _PARALLELISM, _LARGEST_CHECKPOINT = 12, 2, 250_000
_LARGE_ROWS = (50_000, 250_000, 500_000, 1_048_576)


class Curve(NamedTuple):
    """Some sizes of state.

    :param size: bytes of a row.
    :param partitions: of the state behind the rescale; two before.
    """

    operator: str
    size: int
    rows: Sequence[int]
    partitions: int


_CURVES: Mapping[str, Curve] = {
    "rows of 40 bytes, 2 → 4": Curve(AGGREGATION, _SMALL_ROW, (100_000, 1_000_000, 2_000_000, 4_000_000), 4),
    "rows of 1 KiB, 2 → 4": Curve(NOTES, _KIBIBYTE, _LARGE_ROWS, 4),
    "rows of 1 KiB, a fixed number": Curve(NOTES, _KIBIBYTE, _LARGE_ROWS, _PARALLELISM),
}


def points(bootstrap: str, *, only: Collection[str], largest: int) -> dict[str, list[tuple[int, float]]]:
    """Rows of state and seconds without a record, by the title of the curve.

    :param only: titles of the curves.
    :param largest: rows of the largest point that is measured.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    spark = engine_session(_PARALLELISM, **_MAINTENANCE)
    try:
        for title, curve in _CURVES.items():
            if title not in only:
                continue
            for keys in (each for each in curve.rows if each <= largest):
                seconds = StateCost(bootstrap, _options(curve, keys)).run(spark)["rescaleSeconds"]
                found.setdefault(title, []).append((keys, seconds))
                print(f"{title}: {keys:,} rows, {keys * curve.size / 2**20:,.0f} MiB: {seconds:.1f} s", flush=True)
    finally:
        spark.stop()
    return found


def draw(found: Mapping[str, Sequence[tuple[int, float]]], file: Path) -> None:
    """Writes the plot.

    :param file: PNG to write.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.0, 4.5), layout="constrained")
    for title, measured in found.items():
        sizes = [keys * _CURVES[title].size / 2**20 for keys, _ in measured]
        axes.plot(sizes, [seconds for _, seconds in measured], "o-", label=title)
    axes.set(
        xscale="log", ylim=(0, None), xlabel="MiB of state", ylabel="seconds without a record",
        title="A rescale of a job with state",
    )  # fmt: skip
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _options(curve: Curve, keys: int) -> Namespace:
    given: dict[str, Any] = {
        "operator": curve.operator, "keys": keys, "loads": max(2, -(-keys // _LARGEST_CHECKPOINT)), "changed": 0.01,
        "checkpoints": _CHECKPOINTS, "interval": 0.2, "partitions": 4, "parallelism": _PARALLELISM,
        "rescale": curve.partitions, "note_bytes": curve.size,
    }  # fmt: skip
    return Namespace(**given)


def main() -> int:
    """Measures, prints, and draws where ``--plot`` names a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--only", nargs="+", choices=[*_CURVES], default=[*_CURVES], metavar="CURVE")
    parser.add_argument("--largest", type=int, default=sys.maxsize, help="rows of the largest point")
    parser.add_argument("--plot", type=Path, help="PNG to write")
    parser.add_argument("--results", type=Path, help="JSON with the points: drawn if it exists, else written")
    options = parser.parse_args()
    if options.results and options.results.exists():
        found = json.loads(options.results.read_text())
    else:
        with broker_at(options.bootstrap) as bootstrap:
            wake(bootstrap)
            found = points(bootstrap, only=options.only, largest=options.largest)
    if options.results:
        options.results.write_text(json.dumps(found))
    if options.plot:
        draw(found, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
