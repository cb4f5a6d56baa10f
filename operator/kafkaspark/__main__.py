"""``kafkaspark``, or ``python -m kafkaspark``: the commands of ``sparkapp``, ``validate`` and ``topic``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kafkaspark import topic, validate
from kafkaspark.look import logs, status, ui
from sparkapp.__main__ import main as sparkapp

EXAMPLES = """\
examples:
  kafkaspark validate job.yaml
  kafkaspark status orders-upper --namespace shop
  kafkaspark logs orders-upper --follow
  kafkaspark ui
  kafkaspark topic tail orders-upper --from-beginning
  kafkaspark checkpoint list --namespace shop --job orders
  kafkaspark checkpoint restore 41 --namespace shop --job orders
  kafkaspark txn list --bootstrap BROKER:9092 --prefix shop.orders
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 for success, 1 for a refusal, 2 for a command line or a file that cannot be read."""
    return sparkapp(
        arguments,
        prog="kafkaspark",
        examples=EXAMPLES,
        more=tuple(each.add_commands for each in (validate, status, logs, ui, topic)),
    )


if __name__ == "__main__":
    sys.exit(main())
