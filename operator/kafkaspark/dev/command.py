"""``kafkaspark dev job.yaml``: runs the resource on this machine, and again after each change of a file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaspark.dev.broker_job import SUFFIX
from kafkaspark.dev.job_files import JobFiles
from kafkaspark.dev.screen import Screen
from kafkaspark.dev.watch import await_change
from kafkaspark.local.project import Project
from kafkaspark.local.records import Record
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.rules.engine_rules import chosen_engine

if TYPE_CHECKING:
    from kafkaspark.local.spark import LocalSpark

_EXAMPLES = """\
examples:
  kafkaspark dev job.yaml --input orders.jsonl
  kafkaspark dev job.yaml --input orders.jsonl --once --output json
  kafkaspark dev job.yaml --bootstrap 127.0.0.1:9092 --tail

A line of the input is a value in JSON, or a record:
  {"key": "ann", "value": {"id": 1}, "headers": {"trace": "a1"}, "timestamp": "2026-01-01T12:00:00Z", "topic": "orders"}
"""
_DEFAULT_ROWS = 20


def add_commands(commands: Any) -> None:
    """Registers ``dev``, as :func:`kafkaspark.validate.add_commands` does ``validate``."""
    what = "run a job on this machine over the records of a file, and again after each change of a file"
    command = commands.add_parser(
        "dev", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("file", metavar="FILE", type=Path, help="YAML or JSON with the KafkaSparkJob")
    command.add_argument("--input", metavar="FILE", type=Path, help="records, a line of JSON for each")
    command.add_argument("--values", action="store_true", help="take every line of the input as a value")
    command.add_argument("--name", default="", help="of the job, where the file has several")
    command.add_argument("--namespace", "-n", default="default", help="of a job that names none")
    command.add_argument("--once", action="store_true", help="run once; the exit status is 1 if the job fails")
    command.add_argument(
        "--rows", type=int, default=_DEFAULT_ROWS, metavar="N",
        help=f"number of records that are shown, {_DEFAULT_ROWS} by default; 0 shows all",
    )  # fmt: skip
    command.add_argument(
        "--output", choices=("text", "json"), default="text", help="json prints each record as a line, and all of them"
    )
    broker = command.add_argument_group("with a broker", "The job reads and writes topics, exactly once.")
    broker.add_argument("--bootstrap", metavar="HOST:PORT", default="", help="run the job on this broker")
    broker.add_argument("--tail", action="store_true", help="show the committed records of the sink's topic")
    broker.add_argument(
        "--as-is", action="store_true", help=f"write to the job's own topics, in place of topics with the end {SUFFIX}"
    )
    broker.add_argument(
        "--state", metavar="FOLDER", type=Path, help="of checkpoint and state; by default .kafkaspark/NAME by the job"
    )
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    screen = Screen(rows=options.rows, as_json=options.output == "json")
    if options.bootstrap:
        from kafkaspark.dev.broker import BrokerRounds

        return BrokerRounds(options, screen).run()
    of_broker = {"--tail": options.tail, "--as-is": options.as_is, "--state": options.state}
    missing = [f"{name} needs --bootstrap HOST:PORT" for name, value in of_broker.items() if value]
    if options.input is None:
        missing.append("name the records by --input FILE, or a broker by --bootstrap HOST:PORT")
    if missing:
        screen.incomplete("\n".join(missing))
        return 2
    # A change within a second would find the compiled file of the code before it.
    sys.dont_write_bytecode = True
    from kafkaspark.local.spark import open_spark

    spark = open_spark()
    try:
        return Rounds(options, screen, spark).run()
    except KeyboardInterrupt:
        return 0
    finally:
        spark.close()


class Rounds:
    """Runs the job for each state of its files."""

    def __init__(self, options: argparse.Namespace, screen: Screen, spark: LocalSpark) -> None:
        self._options = options
        self._screen = screen
        self._spark = spark
        self._files = JobFiles(options, also_watched=[options.input])

    def run(self) -> int:
        """The exit status; without ``--once`` it ends by an interrupt alone."""
        if self._options.once:
            return self._round()
        while True:
            self._files.begin()
            self._round()
            archive = self._spark.rests()
            if archive is not None:
                self._screen.says(f"the next start of Spark is faster: its classes go to {archive}, in the background")
            self._screen.waits()
            self._screen.begins(await_change(self._files.watched))

    def _round(self) -> int:
        try:
            project, records = self._files.read()
        except KafkaSparkJobError as error:
            return self._screen.refuses(error)
        return self._run(project, records)

    def _run(self, project: Project, records: list[Record]) -> int:
        from kafkaspark.local.run import run_project

        engine, _ = chosen_engine(project.job.spec)
        self._screen.starts(project, engine)
        started = time.monotonic()
        try:
            output = run_project(project, [records], self._spark, fresh=True)
        except KafkaSparkJobError as error:
            self._screen.fails(error)
            return 1
        self._screen.wrote(output, read=len(records), seconds=time.monotonic() - started)
        return 0
