"""The options of a command that is about a job of a cluster."""

from __future__ import annotations

import argparse

from sparkapp.cli.target import add_cluster_options


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name a job of the kubeconfig's cluster."""
    parser.add_argument("job", help="name of the KafkaSparkJob")
    add_cluster_options(parser)
