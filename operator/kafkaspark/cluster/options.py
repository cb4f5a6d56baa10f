"""The options of a command that is about a job of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from sparkapp.cli.target import add_cluster_options


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name a job of the kubeconfig's cluster."""
    parser.add_argument("job", help="name of the KafkaSparkJob")
    add_cluster_options(parser)


def subcommands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The commands of a parser by name; empty for a command without further commands."""
    actions: list[Any] = parser._actions
    return next((dict(action.choices) for action in actions if isinstance(action, argparse._SubParsersAction)), {})
