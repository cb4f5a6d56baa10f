"""``python -m demo``: from an empty machine to a counted result. See docs/internals/demo.md."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from demo.data import ALL_FLIGHTS
from demo.manifest import ENGINES, write_project
from demo.output import change_lines, count_table, incidents_table, output_picture, verdict_line
from demo.story import NAMESPACE, FlightsStory, Outcome
from localcluster import cli, state
from localcluster.errors import SetupError
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings
from pictures import draw


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo. The exit status is 0 only if every record is there exactly once and no transaction is open."""
    parser = argparse.ArgumentParser(
        prog="demo", description="Kills and rescales a running job, then counts every record."
    )
    parser.add_argument("--keep", action="store_true", help="leave the job running")
    parser.add_argument("--engine", choices=ENGINES, default="micro-batch", help="engine of the job")
    parser.add_argument("--records", type=int, default=ALL_FLIGHTS, help="number of flights (default: all)")
    parser.add_argument("--rate", type=float, default=3000.0, help="records a second during the incidents")
    parser.add_argument("--no-build", action="store_true", help="use the running cluster and its images")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except SetupError as error:
        print(error.report(), file=sys.stderr)
        print("  Cluster and job still run. For the logs of the cluster: make cluster-logs", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the cluster still runs. To stop it: make cluster-down", file=sys.stderr)
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace) -> int:
    if not options.no_build:
        for command in ("up", "images"):
            status = cli.main([command])
            if status != 0:
                return status
    environment = ClusterEnvironment.load()
    progress = Progress()
    with progress.step("install the operator with helm"):
        installation.install(environment)
    story = FlightsStory(environment, progress, engine=options.engine, records=options.records, rate=options.rate)
    outcome = story.play()
    kubectl = Kubectl(environment, NAMESPACE)
    for arguments in (("get", "ksj", "--output=wide"), ("describe", "ksj", story.name)):
        print(f"\n$ kubectl --namespace={NAMESPACE} {' '.join(arguments)}")
        print(kubectl.run(*arguments).rstrip())
    print(f"\n{incidents_table(outcome)}\n\n{count_table(outcome)}\n")
    print(f"the output by the second: {_write_picture(outcome, options.engine)}\n")
    if options.keep:
        _print_next_commands(environment, story, options.engine)
    else:
        with progress.step("delete the job and its topics; the cluster still runs (to stop it: make cluster-down)"):
            story.clean_up()
    print(verdict_line(outcome), flush=True)
    return 0 if outcome.good else 1


def _write_picture(outcome: Outcome, engine: str) -> Path:
    """Writes text and SVG of the output; returns the file of the SVG."""
    text = output_picture(outcome, f"Output of the demo, {engine} engine")
    file = REPOSITORY / "artifacts" / f"demo-output-{engine}.svg"
    file.parent.mkdir(exist_ok=True)
    file.with_suffix(".txt").write_text(text, encoding="utf-8")
    file.write_text(draw(text), encoding="utf-8")
    return file


def _print_next_commands(environment: ClusterEnvironment, story: FlightsStory, engine: str) -> None:
    code = write_project(REPOSITORY / "artifacts" / "demo" / engine, environment, engine)
    print("The job still runs. Commands to try:")
    print(f"  {cli.shell_line(state.read_env_file(Settings.from_environment()))}")
    for command in (
        "get ksj --watch",
        f"describe ksj {story.name}",
        f"edit ksj {story.name}",
        f"scale ksj/{story.name} --replicas=2",
        f'patch ksj {story.name} --type=merge --patch \'{{"spec":{{"suspend":true}}}}\'',
        f"delete ksj {story.name}",
    ):
        print(f"  kubectl --namespace={NAMESPACE} {command}")
    print("\n".join(change_lines(code, source=story.source, sink=story.sink, namespace=NAMESPACE)))
    print(f"For a job of your own, continue with step 3 of docs/quick-start.md in the namespace {NAMESPACE}.")
    print(f"In job.yaml its BROKER:9092 is {environment.bootstrap_pods}.")
    print("  make cluster-down\n")


if __name__ == "__main__":
    sys.exit(main())
