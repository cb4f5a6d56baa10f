"""``kafkaspark topic``: lists, creates and describes topics, writes records from a file, and shows records."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkapp.cli.client_file import add_allow_insecure, read_properties
from sparkapp.cli.table import Output, render
from sparkapp.cli.target import BOOTSTRAP_VARIABLE, add_resource_options, cluster_of_job
from sparkapp.model.errors import CommandRefused

if TYPE_CHECKING:
    from kafkaspark.cluster_topics import Topics

_EXAMPLES = """\
examples:
  export KAFKASPARK_BOOTSTRAP=127.0.0.1:9092
  kafkaspark topic create orders --partitions 4
  kafkaspark topic produce orders --key-separator : < orders.txt
  kafkaspark topic tail orders-upper --from-beginning --follow
  kafkaspark topic describe orders --namespace shop --job orders --in-cluster run
"""

Answer = Callable[["Topics", argparse.Namespace], None]


def add_commands(commands: Any) -> None:
    """Registers ``topic``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "list, create and describe topics, write and show their records"
    topic = commands.add_parser(
        "topic", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = topic.add_subparsers(dest="verb", required=True)

    def verb(name: str, text: str, answer: Answer) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
        add_connection_options(parser)
        job = parser.add_argument_group("job", "whose brokers and credentials the command takes")
        add_resource_options(job, has="its brokers and credentials")
        job.add_argument("--sink", action="store_true", help="the brokers of the job's sink, if it has its own")
        parser.set_defaults(answer=lambda options: _run(answer, options))
        return parser

    def output(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--output", type=Output, choices=list(Output), default=Output.TABLE, help="form of the answer"
        )

    output(verb("list", "Lists the topics that the user may see.", _list))
    create = verb("create", "Creates a topic.", _create)
    create.add_argument("topic")
    create.add_argument("--partitions", type=_positive, default=1, metavar="N", help="by default 1")
    create.add_argument("--replicas", type=_positive, metavar="N", help="copies; by default the brokers' setting")
    create.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE", help="of the topic, e.g. cleanup.policy=compact"
    )
    describe = verb("describe", "Shows the partitions of a topic with their offsets and replicas.", _describe)
    describe.add_argument("topic")
    output(describe)
    produce = verb("produce", "Writes a record for each line of the standard input.", _produce)
    produce.add_argument("topic")
    produce.add_argument("--key-separator", metavar="TEXT", help="the key is the text before it; by default no key")
    tail = verb("tail", "Shows the committed records of a topic.", _tail)
    tail.add_argument("topic")
    tail.add_argument("--from-beginning", action="store_true", help="all records; by default the last ten")
    tail.add_argument("--count", type=_positive, metavar="N", help="end behind N records")
    tail.add_argument("--follow", "-f", action="store_true", help="wait for further records")
    tail.add_argument(
        "--uncommitted", action="store_true", help="also records of open and aborted transactions (read_uncommitted)"
    )
    output(tail)


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that :func:`connection_of` reads."""
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", default="",
        help=f"bootstrap brokers; by default those of the file or job, or else the environment's {BOOTSTRAP_VARIABLE}",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="client properties (librdkafka's names) for SASL and TLS"
    )
    add_allow_insecure(parser)


def connection_of(options: argparse.Namespace) -> dict[str, str]:
    """The librdkafka properties of a cluster: of ``--job``, of ``--config``, or without credentials.

    :raises CommandRefused: no brokers are named, or the file or the job cannot be used.
    """
    config = {}
    if getattr(options, "job", None) is not None or getattr(options, "resource", None) is not None:
        config = cluster_of_job(options)
    if options.config is not None:
        # The user's file replaces all of the job's credentials.
        brokers = {name: value for name, value in config.items() if name == "bootstrap.servers"}
        config = {**brokers, **read_properties(options.config, allow_insecure=options.allow_insecure)}
    bootstrap = options.bootstrap or config.get("bootstrap.servers") or os.environ.get(BOOTSTRAP_VARIABLE)
    if not bootstrap:
        msg = "no brokers are named"
        raise CommandRefused(msg, remedy=f"add --bootstrap HOST:PORT, or export {BOOTSTRAP_VARIABLE}=HOST:PORT")
    return {**config, "bootstrap.servers": bootstrap}


def _run(answer: Answer, options: argparse.Namespace) -> int:
    from kafkaspark.cluster_topics import Topics

    try:
        answer(Topics({**connection_of(options), "client.id": "kafkaspark-topic"}), options)
    except KeyboardInterrupt:
        return 0
    return 0


def _list(topics: Topics, options: argparse.Namespace) -> None:
    print(render(topics.listing(), options.output, empty="no topics"))


def _create(topics: Topics, options: argparse.Namespace) -> None:
    settings = dict(_setting(text) for text in options.setting)
    topics.create(options.topic, partitions=options.partitions, replicas=options.replicas, settings=settings)
    print(f"topic {options.topic} created with {options.partitions} partitions")


def _describe(topics: Topics, options: argparse.Namespace) -> None:
    print(render(topics.partitions(options.topic), options.output))


def _produce(topics: Topics, options: argparse.Namespace) -> None:
    written = topics.produce(options.topic, sys.stdin.buffer, separator=(options.key_separator or "").encode())
    print(f"{written} records written to {options.topic}")


def _tail(topics: Topics, options: argparse.Namespace) -> None:
    records = topics.records(
        options.topic, first=options.from_beginning, follow=options.follow, uncommitted=options.uncommitted
    )
    for number, record in enumerate(records, 1):
        print(record.as_json() if options.output is Output.JSON else record.as_line(), flush=options.follow)
        if number == options.count:
            break


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        msg = f"--setting {text!r} is not NAME=VALUE"
        raise CommandRefused(msg, remedy="write for instance --setting cleanup.policy=compact")
    return name, value


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = "a number of at least 1"
        raise argparse.ArgumentTypeError(msg)
    return number
