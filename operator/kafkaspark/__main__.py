"""``kafkaspark``, or ``python -m kafkaspark``: the commands of ``sparkapp``, and those for a laptop."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kafkaspark import plan, topic, validate
from kafkaspark.dev import command as dev
from kafkaspark.look import logs, status, ui
from kafkaspark.scaffold import init
from sparkapp.__main__ import main as sparkapp

EXAMPLES = """\
examples:
  kafkaspark init orders
  kafkaspark dev job.yaml --input orders.jsonl
  kafkaspark validate job.yaml
  kafkaspark plan job.yaml
  kafkaspark status orders-upper --namespace shop
  kafkaspark logs orders-upper --follow
  kafkaspark ui
  kafkaspark topic tail orders-upper --from-beginning
  kafkaspark checkpoint list --namespace shop --job orders
  kafkaspark checkpoint restore 41 --namespace shop --job orders
  kafkaspark txn list --bootstrap BROKER:9092 --prefix shop.orders
"""
_LOCAL = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "confluent_kafka", "kafka", "kubernetes", "urllib3"})
"""Packages of the extra ``local``, which a light installation lacks."""
_COMMANDS = tuple(each.add_commands for each in (init, dev, validate, plan, status, logs, ui, topic))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 for success, 1 for a refusal, 2 for a command line or a file that cannot be read."""
    try:
        return sparkapp(arguments, prog="kafkaspark", examples=EXAMPLES, more=_COMMANDS)
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
