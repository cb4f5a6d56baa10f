"""``python -m demo``: from nothing to a counted result; see docs/demo.md."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from demo import installation
from demo.data import ALL_FLIGHTS
from demo.environment import ClusterEnvironment
from demo.kubectl import Kubectl
from demo.story import NAMESPACE, FlightsStory
from demo.telling import count_table, incidents_table, verdict_line
from localcluster import cli
from localcluster.errors import SetupError
from localcluster.progress import Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; the exit status is 0 only if every record is there once and nothing is left open."""
    parser = argparse.ArgumentParser(prog="demo", description="A real job survives being killed and rescaled.")
    parser.add_argument("--keep", action="store_true", help="leave the job running, to play with")
    parser.add_argument("--records", type=int, default=ALL_FLIGHTS, help="how many flights (default: all)")
    parser.add_argument("--rate", type=float, default=3000.0, help="records a second while the incidents happen")
    parser.add_argument("--no-build", action="store_true", help="use the cluster and the images as they are")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except SetupError as error:
        print(error.report(), file=sys.stderr)
        print("  the job is left as it is; logs of the cluster: make cluster-logs", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the cluster still runs (make cluster-down ends it)", file=sys.stderr)
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace) -> int:
    if not options.no_build:
        for command in ("up", "images"):
            status = cli.main([command])
            if status != 0:
                return status
    environment = ClusterEnvironment.load()
    progress = Progress()
    with progress.step("helm install of the operator"):
        installation.install(environment)
    story = FlightsStory(environment, progress, records=options.records, rate=options.rate)
    outcome = story.play()
    kubectl = Kubectl(environment, NAMESPACE)
    for arguments in (("get", "ksj", "--output=wide"), ("describe", "ksj", story.name)):
        print(f"\n$ kubectl --namespace={NAMESPACE} {' '.join(arguments)}")
        print(kubectl.run(*arguments).rstrip())
    print(f"\n{incidents_table(outcome)}\n\n{count_table(outcome)}\n")
    if options.keep:
        _tell_how_to_play(environment, story)
    else:
        with progress.step("deleting the job and its topics (the cluster stays: make cluster-down ends it)"):
            story.clean_up()
    print(verdict_line(outcome), flush=True)
    return 0 if outcome.good else 1


def _tell_how_to_play(environment: ClusterEnvironment, story: FlightsStory) -> None:
    print("The job still runs. To play with it:")
    print(f"  export KUBECONFIG={environment.kubeconfig} PATH={environment.kubectl.rpartition('/')[0]}:$PATH")
    for command in (
        "get ksj --watch",
        f"describe ksj {story.name}",
        f"scale ksj/{story.name} --replicas=2",
        f'patch ksj {story.name} --type=merge --patch \'{{"spec":{{"suspend":true}}}}\'',
        f"delete ksj {story.name}",
    ):
        print(f"  kubectl --namespace={NAMESPACE} {command}")
    print("  make cluster-down\n")


if __name__ == "__main__":
    sys.exit(main())
