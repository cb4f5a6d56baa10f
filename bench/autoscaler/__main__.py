"""``python -m bench.autoscaler``: runs the curves, prints what happened, and draws docs/internals/autoscaler.svg."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.autoscaler.curves import CURVES
from bench.autoscaler.drawing import drawn

PICTURE = Path("docs/internals/autoscaler.svg")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.autoscaler", description=__doc__)
    parser.add_argument("--curve", choices=sorted(CURVES), help="only this curve, with each decision")
    chosen = parser.parse_args().curve
    runs = {name: curve.run() for name, curve in CURVES.items() if chosen in {None, name}}
    for name, run in runs.items():
        steps = " ".join(f"{change.at:.0f}s:{change.before}→{change.after}" for change in run.changes)
        print(f"{name:14} lag at most {run.most_lag_seconds:6.1f} s, {len(run.changes)} changes {steps}")
        if chosen:
            for change in run.changes:
                print(f"  {change.at:.0f} s: {change.verdict.reason}: {change.verdict.message}")
            print(f"  at the end: {run.verdicts[-1].reason}: {run.verdicts[-1].message}")
    if not chosen:
        PICTURE.write_text(drawn({CURVES[name].title: run for name, run in runs.items()}), encoding="utf-8")
        print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
