"""``kafkaspark restore JOB``: goes back to a retained checkpoint or to a snapshot; says before what that repeats."""

from __future__ import annotations

import argparse
from typing import Any

from kafkaspark.cluster.options import add_job_options
from sparkapp.cli.checkpoints import add_restore_options, restore
from sparkapp.cli.table import Output

_EXAMPLES = """\
examples:
  kafkaspark restore orders-upper --checkpoint 41
  kafkaspark restore orders-upper --namespace shop --snapshot before-upgrade --yes

Without --yes nothing changes. `kafkaspark state JOB` lists checkpoints and snapshots.
"""


def add_commands(commands: Any) -> None:
    """Registers ``restore``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "show what a restore reads and writes again; with --yes, restore"
    command = commands.add_parser(
        "restore", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_job_options(command)
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--checkpoint", dest="id", type=int, metavar="ID", help="number of a retained checkpoint")
    target.add_argument("--snapshot", default="", metavar="NAME", help="a KafkaSparkSnapshot, also of another job")
    command.add_argument("--output", "-o", type=Output, choices=list(Output), default=Output.TABLE)
    add_restore_options(command)
    command.set_defaults(answer=restore, state=None)
