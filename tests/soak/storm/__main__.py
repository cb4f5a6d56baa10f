"""``PYTHONPATH=dev python -m tests.soak.storm --seconds 900`` breaks and changes jobs on the cluster of ``make ready``.

Each seed is a job. A quarter run micro-batches, a quarter the continuous engine, a quarter its local pace, and a
quarter a query with state, whose partitions follow each scale (``--seed 3 --jobs 1`` is such a job). A loader writes to
each source all the time. A step kills or freezes a driver or an executor, ends the operator, scales, edits,
suspends, makes a snapshot or goes back to one. Some edits never run. At the end each record is in the sink once, and
once more for each restore that went back behind it. No transaction is open. The exit status is 1 where that is not so.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from tests.soak.storm.storm import Storm


def main() -> int:
    """Runs the storms; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first job")
    parser.add_argument("--jobs", type=int, default=2, help="number of jobs, at once")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--keep", action="store_true", help="leave the namespaces of jobs that failed")
    options = parser.parse_args()
    environment = ClusterEnvironment.load()
    installation.install(environment)
    began = time.monotonic()

    def storm(seed: int) -> bool:
        def say(line: str) -> None:
            print(f"[{time.monotonic() - began:6.0f} s] seed {seed} {line}", flush=True)

        made = Storm(environment, seed, say)
        try:
            made.run(options.seconds)
        except Exception:  # any error is the result of its seed
            say(f"FAILED after {made.steps} steps\n{traceback.format_exc()}")
            if not options.keep:
                made.close()
            return False
        made.close()
        return True

    seeds = range(options.seed, options.seed + options.jobs)
    with ThreadPoolExecutor(options.jobs) as pool:
        clean = list(pool.map(storm, seeds))
    print(f"{sum(clean)} of {len(clean)} jobs are clean after {time.monotonic() - began:.0f} s")
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
