"""``kafkaspark status JOB``: a job on a page, with the command that comes next."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

from kafkaspark.cluster.options import add_job_options
from kafkaspark.cluster.user_cluster import UserCluster
from kafkaspark.look.overview import is_well, overview
from sparkapp.cli.table import refuse
from sparkapp.model.errors import CommandRefused

_PAUSE_SECONDS = 2.0
_CLEAR = "\x1b[2J\x1b[H"
_EXAMPLES = """\
examples:
  kafkaspark status orders-upper
  kafkaspark status orders-upper --namespace shop --watch
  kafkaspark status orders-upper --output json | jq .status.source.lagRecords

The exit status is 0 where the job is Ready, suspended or finished, 1 where it is not, and 2 where it cannot be read.
"""


def add_commands(commands: Any) -> None:
    """Registers ``status``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "show a job: attempt, pods, checkpoint, lag, transactions, last failure"
    command = commands.add_parser(
        "status", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_job_options(command)
    command.add_argument("--verbose", "-v", action="store_true", help="every condition, and the last failure's log")
    command.add_argument("--watch", "-w", action="store_true", help="again every 2 s")
    command.add_argument("--output", choices=("text", "json"), default="text", help="form of the answer")
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    try:
        cluster = UserCluster.of_context(options.context)
        namespace = options.namespace or cluster.namespace
        while True:
            job = cluster.job(namespace, options.job)
            pods = cluster.pods(namespace, options.job)
            if options.output == "json":
                text = json.dumps({**job, "pods": pods}, indent=None if options.watch else 2)
            else:
                text = overview(job, pods, now=datetime.now(UTC), verbose=options.verbose).text()
            clear = _CLEAR if options.watch and sys.stdout.isatty() and options.output == "text" else ""
            print(f"{clear}{text}", flush=True)
            if not options.watch:
                return 0 if is_well(job.get("status") or {}) else 1
            time.sleep(_PAUSE_SECONDS)
    except CommandRefused as refusal:
        refuse(refusal)
        return 2
    except KeyboardInterrupt:
        return 0
