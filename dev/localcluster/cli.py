"""The commands of ``python3 -m localcluster``."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence

from localcluster import state
from localcluster.clusters import selection
from localcluster.errors import SetupError, tail
from localcluster.images import builder as images
from localcluster.kafka import cluster_broker
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.progress import Progress
from localcluster.settings import NETWORK, REPOSITORY, Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the process's exit status. A :class:`SetupError` is printed without a traceback."""
    options = _parser().parse_args(arguments)
    settings = Settings.from_environment()
    try:
        status: int = options.run(settings, options)
    except SetupError as error:
        print(error.report(), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nstopped; the processes started so far still run. To continue, run the same command again",
            file=sys.stderr,
        )
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed it. Nothing may be written at the exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="localcluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("prepare", help="download and build everything, start nothing").set_defaults(run=_prepare)
    commands.add_parser("up", help="start Kubernetes and Kafka").set_defaults(run=_up)
    down = commands.add_parser("down", help="stop Kubernetes and Kafka")
    down.add_argument("--purge", action="store_true", help="delete their state too")
    down.set_defaults(run=_down)
    commands.add_parser("status", help="list the processes and their state").set_defaults(run=_status)
    logs = commands.add_parser("logs", help="show the last lines of the logs")
    logs.add_argument("name", nargs="*", help="names of logs, without .log (default: all)")
    logs.set_defaults(run=_logs)
    built = commands.add_parser("images", help="build the images and load them into the cluster")
    built.add_argument("--s3", action="store_true", help="that of jobs with state in an object store, too")
    built.set_defaults(run=_images)
    commands.add_parser("kafka-up", help="start Kafka alone").set_defaults(run=_kafka_up)
    commands.add_parser("kafka-down", help="stop Kafka alone").set_defaults(run=_kafka_down)
    return parser


def _prepare(settings: Settings, _options: argparse.Namespace) -> int:
    with state.held(settings):
        selection.choose(settings, Progress()).prepare()
    return 0


def _up(settings: Settings, _options: argparse.Namespace) -> int:
    with state.held(settings):
        values = selection.choose(settings, Progress()).up()
    _print_summary(settings, values)
    return 0


def _down(settings: Settings, options: argparse.Namespace) -> int:
    progress = Progress()
    with state.held(settings):
        selection.choose(settings, progress).down()
        if options.purge:
            with progress.step(f"delete {settings.state}"):
                state.purge(settings)
    return 0


def _status(settings: Settings, _options: argparse.Namespace) -> int:
    cluster = selection.choose(settings, Progress())
    for name, how, log in cluster.status():
        print(f"{name:24} {how:28} {log}")
    is_up = cluster.is_up()
    if is_up:
        _print_summary(settings, state.read_env_file(settings))
    return 0 if is_up else 1


def _logs(settings: Settings, options: argparse.Namespace) -> int:
    for log in sorted(settings.logs.glob("*.log")):
        if not options.name or log.stem in options.name:
            print(f"== {log}")
            print("\n".join(tail(log)))
    return 0


def _images(settings: Settings, options: argparse.Namespace) -> int:
    progress = Progress()
    with state.held(settings):
        cluster = selection.choose(settings, progress)
        for image in (*images.IMAGES, *([images.STORE_IMAGE] if options.s3 else [])):
            print(f"  {image.reference}  {cluster.publish(image)}")
    return 0


def _kafka_up(settings: Settings, _options: argparse.Namespace) -> int:
    progress = Progress()
    with state.held(settings):
        broker = cluster_broker.describe(settings)
        if not broker.is_running():
            KafkaDistribution.of(settings).fetch(settings, progress)
            with progress.step("start Kafka"):
                broker.start()
        values = {**state.read_env_file(settings), "KAFKASPARK_BOOTSTRAP": NETWORK.kafka_host_bootstrap}
        state.write_env_file(settings, values)
    _print_summary(settings, values)
    return 0


def _kafka_down(settings: Settings, _options: argparse.Namespace) -> int:
    with state.held(settings), Progress().step("stop Kafka"):
        cluster_broker.describe(settings).stop()
    return 0


def _print_summary(settings: Settings, values: Mapping[str, str]) -> None:
    labels = {
        "KUBECONFIG": "KUBECONFIG",
        "KAFKASPARK_BOOTSTRAP": "Kafka from this machine",
        "KAFKASPARK_BOOTSTRAP_PODS": "Kafka from pods",
        "KAFKASPARK_BIN": "kubectl and helm",
        "KAFKASPARK_LOGS": "logs",
    }
    print()
    for key, label in labels.items():
        if key in values:
            print(f"  {label:24} {values[key]}")
    print(f"  {'all values, for scripts':24} {settings.env_file}")
    print(f"\n  For kubectl, helm and kafkaspark in this shell:\n  {shell_line(values)}")


def shell_line(values: Mapping[str, str]) -> str:
    """The command that puts the cluster's programs and the environment's ``kafkaspark`` on ``PATH``."""
    programs = [str(REPOSITORY / ".venv/bin"), *filter(None, [values.get("KAFKASPARK_BIN")])]
    named = [f"{key}={shlex.quote(values[key])}" for key in ("KUBECONFIG", "KAFKASPARK_BOOTSTRAP") if key in values]
    return " ".join(["export", *named, f"PATH={shlex.quote(':'.join(programs))}:$PATH"])
