"""``kafkaspark``, or ``python -m kafkaspark``: the commands of ``sparkapp``, and those for a laptop."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kafkaspark import plan, topic, validate
from kafkaspark.cluster import in_cluster, restore, snapshot, state
from kafkaspark.dev import command as dev
from kafkaspark.look import logs, status, ui
from kafkaspark.scaffold import completion, init, package
from sparkapp.__main__ import main as sparkapp
from sparkapp.cli import checkpoints, transactions

DESCRIPTION = "Makes, judges, tests and runs a KafkaSparkJob on this machine, and looks at jobs of a cluster."
EXAMPLES = """\
examples:
  kafkaspark init orders
  kafkaspark dev job.yaml --input orders.jsonl
  kafkaspark validate job.yaml
  kafkaspark plan job.yaml
  kafkaspark status orders-upper --namespace shop
  kafkaspark logs orders-upper --follow
  kafkaspark ui
  kafkaspark snapshot orders-upper --name before-upgrade
  kafkaspark state orders-upper
  kafkaspark restore orders-upper --snapshot before-upgrade
  kafkaspark topic tail orders-upper --from-beginning
  kafkaspark txn list --namespace shop --job orders-upper
"""
_LOCAL = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "confluent_kafka", "kafka", "kubernetes", "urllib3"})
"""Packages of the extra ``local``, which a light installation lacks."""
_MODULES = (
    init, dev, validate, plan, package, status, logs, ui, snapshot, restore, state, topic, checkpoints, transactions,
    completion, in_cluster,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 for success, 1 for a refusal, 2 for a command line or a file that cannot be read."""
    # kubectl runs its plugin under this name.
    is_plugin = Path(sys.argv[0]).name == "kubectl-kafkaspark"
    program = "kubectl kafkaspark" if is_plugin else "kafkaspark"
    examples = EXAMPLES.replace("  kafkaspark", f"  {program}")
    try:
        return sparkapp(
            arguments, prog=program, description=DESCRIPTION, examples=examples,
            people=[module.add_commands for module in _MODULES],
        )  # fmt: skip
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed it. Nothing may be written at the exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _LOCAL:
            raise
        sys.stderr.write(f"this command needs the package {package}: pip install 'kafkaspark[local]'\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
