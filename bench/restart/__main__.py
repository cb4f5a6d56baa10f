"""How long a job is down: seconds from kill -9 of its driver, or from a rescale, until readers get records again.

    PYTHONPATH=dev python -m bench.restart --repetitions 10            # the cluster of make cluster-up images
    PYTHONPATH=dev python -m bench.restart --local --repetitions 10    # processes of this machine alone

Records come in steadily. Each figure has p50, p95 and maximum:

- *kill to flowing*: from SIGKILL of every process of the driver to the first record of the next attempt that a
  read_committed reader gets;
- *last stable offset free*: from the same moment until no transaction of the killed attempt holds readers back. The
  offset is sampled, and the signal is sent while a transaction is open;
- *rescale to flowing*: from ``kubectl scale``. The continuous engine is rescaled in place, so until the first records
  behind the change of the parallelism;
- *silence*: the longest time without a record for a reader, which users notice. With a successor that comes up first
  (``--successor``) there is little silence in a rescale.

The seconds are also shown by phase, from the pods' states, the driver's log and the state ConfigMap. With ``--local``
the driver is started again at once, without a pod, an executor or the image's class archive. So only the engine's part
remains. ``--only takeover`` (local, continuous engine) has the next driver prepared before the present driver stops, as
``spec.upgrade.strategy: BlueGreen``. Its silence is the longest time between two records by their own times.
``--only worker freeze executor`` ends or freezes a process below the driver: the driver continues, and Spark
starts its task again. At the end source and sink are compared: figures of a job that loses records mean nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from functools import partial

from bench.restart.restarts import Kind, Restarts, Site
from localcluster.errors import SetupError
from sparkapp.model.job.spec import Engine

LOSSES = {"worker": Kind.WORKER, "freeze": Kind.FREEZE, "executor": Kind.EXECUTOR}
"""What the driver outlives."""


def main() -> int:
    """Runs the bench of the options and prints the outcome; the exit status does not judge the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=10, help="of a kill, and of a rescale")
    parser.add_argument(
        "--only", choices=["kill", "rescale", "takeover", *LOSSES], nargs="+",
        help="by default a kill and a rescale alternately; takeover, worker and freeze need --local",
    )  # fmt: skip
    parser.add_argument("--engine", type=Engine, choices=list(Engine), default=Engine.MICRO_BATCH)
    parser.add_argument("--rate", type=float, default=500.0, help="records a second")
    parser.add_argument("--interval", type=int, default=1, help="seconds between checkpoints")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rescaled", type=int, default=3, help="the other parallelism; the two alternate")
    parser.add_argument("--cores", type=int, default=2, help="of an executor in the cluster")
    parser.add_argument("--backoff", type=int, default=1, help="seconds between attempts, which do not grow")
    parser.add_argument(
        "--successor", choices=["AfterStop", "BeforeStop", "Standby"], default="AfterStop",
        help="spec.restartPolicy.successor: when the next attempt's pods are created",
    )  # fmt: skip
    parser.add_argument("--local", action="store_true", help="processes of this machine instead of the cluster")
    parser.add_argument("--bootstrap", help="with --local: an existing broker, by default a temporary one")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    restarts = Restarts()
    try:
        with ExitStack() as stack:
            verdict = measure(site_of(options, stack), restarts, options)
    except SetupError as error:
        print(error.report(), file=sys.stderr)
        return 1
    finally:
        # Restarts that were measured before a failure count, too.
        if restarts.found:
            print(json.dumps(restarts.as_json(), indent=2) if options.output == "json" else f"\n{restarts.tables()}")
    print(verdict, file=sys.stderr if options.output == "json" else sys.stdout)
    return 0


def measure(site: Site, restarts: Restarts, options: argparse.Namespace) -> str:
    """Kills and rescales alternately.

    :returns: the count of records at the end.
    """
    acts = {"kill": site.kill, "rescale": site.rescale, "takeover": site.take_over}
    acts |= {name: partial(site.lose, kind) for name, kind in LOSSES.items()}
    wanted = options.only or (["kill"] if options.local else ["kill", "rescale"])
    for number in range(1, options.repetitions + 1):
        for name in wanted:
            restarts.found.append(acts[name]())
            print(f"{number:3}  {restarts.found[-1].line()}", file=sys.stderr, flush=True)
    return site.judge()


def site_of(options: argparse.Namespace, stack: ExitStack) -> Site:
    """The running job in the cluster or on this machine; ends with the stack."""
    if options.local:
        from bench.restart.local import LocalRestarts

        return stack.enter_context(LocalRestarts.begin(options))
    from bench.restart.cluster import ClusterRestarts

    return stack.enter_context(ClusterRestarts.begin(options))


if __name__ == "__main__":
    sys.exit(main())
