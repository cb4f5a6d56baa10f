"""``python -m tests.fuzz --seconds 3600 [--target avro]``: damaged input until the time is up.

A failure names its seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of all targets together")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--seed", type=int, help="repeat one example of one target")
    options = parser.parse_args()
    chosen = options.target or sorted(TARGETS)
    for name in chosen:
        with TARGETS[name]() as check:
            if options.seed is not None:
                check(Random(options.seed))
                continue
            first = seed = time.time_ns() // 1000
            end = time.monotonic() + options.seconds / len(chosen)
            while time.monotonic() < end:
                seed += 1
                try:
                    check(Random(seed))
                except BaseException:
                    print(f"{name}: --target {name} --seed {seed}", flush=True)
                    raise
            print(f"{name}: {seed - first} examples", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
