"""``PYTHONPATH=tools python -m tests.soak --schedules 1000``: random schedules until their number or the time is up.

Prints a line for each that fails, with the seed that repeats it (``--seed S --schedules 1``), and a count at the end.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import traceback
import uuid
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from sparkapp.sink.transaction_client import TransactionClient
from tests.soak.schedule import Schedule

_OVERRIDES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


def main() -> int:
    """Runs what the options say; exit status 1 where a schedule failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule; each next one is one higher")
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--workers", type=int, default=3, help="schedules at a time")
    parser.add_argument("--bootstrap", help="an existing broker; without it one is started")
    options = parser.parse_args()
    if options.bootstrap:
        return _soak(options, options.bootstrap)
    from localcluster.kafka import Broker

    with (
        tempfile.TemporaryDirectory() as folder,
        Broker.ephemeral(Path(folder), overrides=_OVERRIDES) as broker,
    ):
        return _soak(options, broker.bootstrap)


def _soak(options: argparse.Namespace, bootstrap: str) -> int:
    began = time.monotonic()
    clean = 0
    failed: list[int] = []
    seeds = (
        (bootstrap, seed, began + options.seconds) for seed in range(options.seed, options.seed + options.schedules)
    )
    # Each schedule in a process of its own: what a killed life leaves behind in a client's threads ends with it.
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.workers, maxtasksperchild=20) as pool:
        for seed, trace in pool.imap_unordered(_run, seeds):
            if trace is None:
                break
            if trace:
                failed.append(seed)
                print(f"seed {seed} FAILED\n{trace}", flush=True)
            else:
                clean += 1
            if (clean + len(failed)) % 25 == 0:
                print(f"{clean} clean, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
        pool.terminate()
    print(f"{clean} schedules clean, failed seeds: {failed or 'none'}; {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _run(work: tuple[str, int, float]) -> tuple[int, str | None]:
    """A schedule's seed with its trace: empty if clean, None if the time is up."""
    bootstrap, seed, until = work
    if time.monotonic() > until:
        return seed, None
    admin = AdminClient({"bootstrap.servers": bootstrap})
    client = TransactionClient({"bootstrap.servers": bootstrap})
    run = uuid.uuid4().hex[:8]

    def make_topic(partitions: int, name: str) -> str:
        topic = f"soak.{run}.{seed}.{name}"
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        return topic

    schedule = Schedule(seed)
    try:
        schedule.run(bootstrap, client, make_topic, prefix=f"soak.{run}")
    except Exception:
        return seed, traceback.format_exc() + "\n".join(schedule.told)
    finally:
        client.close()
    for future in admin.delete_topics([f"soak.{run}.{seed}.{name}" for name in ("in", "out")]).values():
        future.result(30)
    return seed, ""


if __name__ == "__main__":
    sys.exit(main())
