"""What ``kafkaspark dev`` prints: records on the standard output, everything else on the standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from kafkaspark.local.output import Output
from kafkaspark.local.project import Project
from kafkaspark.local.records import Record
from sparkapp.model.errors import CommandRefused, InputUnreadable, KafkaSparkJobError
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.report import AttemptOutcome, Report, Termination

_RED, _GREEN, _DIM, _END = "\033[31m", "\033[32m", "\033[2m", "\033[0m"
_WIDTH = 400


class Screen:
    """Prints rounds. Colours are for terminals alone, and ``NO_COLOR`` switches them off.

    :param rows: records that are shown; 0 for all.
    :param as_json: print each record as a line of JSON, as ``--input`` reads it.
    """

    def __init__(self, *, rows: int, as_json: bool) -> None:
        self._rows = rows
        self._as_json = as_json
        self._has_colours = sys.stderr.isatty() and "NO_COLOR" not in os.environ

    def starts(self, project: Project, engine: Engine) -> None:
        """A round begins, whose job the operator would accept."""
        job = project.job
        self._say(f"{job.namespace}/{job.name}: engine {engine.value}, no broker: the input is one checkpoint", _DIM)
        self._name_unset(project)

    def wrote(self, output: Output, *, read: int, seconds: float) -> None:
        """A round has ended."""
        shown = output if self._as_json or not self._rows else output[: self._rows]
        for record in shown:
            print(_as_json(record) if self._as_json else _as_text(record), flush=True)
        if len(shown) < len(output):
            self._say(f"… and {len(output) - len(shown)} records more; --rows 0 shows all", _DIM)
        for record in output.dead_letters:
            print(_as_json(record) if self._as_json else f"dead letter {_as_text(record)}", flush=True)
        for warning in output.warnings:
            self._say(f"warning: {warning}", _RED)
        further = {
            "dead letters": len(output.dead_letters), "records skipped": output.skipped,
            "late rows dropped": output.late,
        }  # fmt: skip
        extras = "".join(f", {count} {what}" for what, count in further.items() if count)
        rate = f", {read / seconds:,.0f} records a second" if seconds else ""
        self._say(f"{read} records read, {len(output)} written{extras} in {seconds:.1f} s{rate}", _GREEN)

    def fails(self, error: KafkaSparkJobError) -> None:
        """The operator refuses the job, or the job has failed."""
        if isinstance(error, CommandRefused):
            self._say(f"{error.message}\nFix: {error.remedy}", _RED)
            return
        own = error.remedy if error.remedy != error.default_remedy else ""
        self._say(f"{error.reason}: {error.message}" + (f"\n  {own}" if own else ""), _RED)
        if error.detail:
            self._say(error.detail.rstrip(), _DIM)

    def refuses(self, error: KafkaSparkJobError) -> int:
        """The job cannot run; the exit status of ``--once``."""
        self.fails(error)
        return 2 if isinstance(error, InputUnreadable) else 1

    def incomplete(self, message: str) -> None:
        """The command line lacks an option."""
        self._say(message, _RED)

    def waits(self) -> None:
        """A round follows when a file changes."""
        self._say("waiting for a change of a file; Ctrl-C ends", _DIM)

    def begins(self, changed: Iterable[Path]) -> None:
        """Files have changed."""
        self._say(f"changed: {', '.join(sorted(file.name for file in changed))}", _DIM)

    def begins_on_broker(self, job: Job, project: Project, folder: Path) -> None:
        """An attempt starts on a broker."""
        source = ", ".join(job.spec.source.topics) or job.spec.source.topic_pattern
        self._say(
            f"{job.namespace}/{job.name}: {source} to {job.spec.sink.topic} as group {job.spec.source.group_id}, with"
            f" the checkpoint in {folder}. The first records take half a minute",
            _DIM,
        )
        self._name_unset(project)

    def progresses(self, report: Report) -> None:
        """A checkpoint of the job is complete, or it has a new state."""
        lag = "unknown" if report.lag_records is None else f"{report.lag_records:,}"
        self._say(
            f"{report.state.value}: checkpoint {report.checkpoint_id}, {report.records_in:,} records read,"
            f" {report.records_out:,} written, lag {lag}, {report.records_per_second:,} records a second",
            _GREEN,
        )

    def ended(self, termination: Termination) -> None:
        """An attempt has ended."""
        is_failure = termination.outcome is AttemptOutcome.FAILED
        remedy = f"\n  {termination.remedy}" if is_failure and termination.remedy else ""
        self._say(f"{termination.reason}: {termination.message}{remedy}", _RED if is_failure else _DIM)

    def stops(self) -> None:
        """The job is asked to stop."""
        self._say("the job stops at a checkpoint", _DIM)

    def says(self, line: str) -> None:
        """A line of the job's log."""
        self._say(line, "")

    def _name_unset(self, project: Project) -> None:
        for name in project.unset:
            self._say(f"variable {name} has its value in the cluster alone: set it here by `export {name}=…`", _DIM)

    def _say(self, text: str, colour: str) -> None:
        text = "\n".join(map(_printable, text.splitlines()))
        sys.stderr.write(f"{colour}{text}{_END}\n" if self._has_colours else f"{text}\n")
        sys.stderr.flush()


def _as_text(record: Record) -> str:
    key = "" if record.key is None else f" {_text(record.key)}"
    headers = "".join(f" {name}={'' if value is None else _text(value)}" for name, value in record.headers)
    value = "null" if record.value is None else _text(record.value)
    shown = value if len(value) <= _WIDTH else value[:_WIDTH] + "…"
    return _printable(f"{record.topic}{key}: {shown}{headers}")


def _as_json(record: Record) -> str:
    line = {
        "topic": record.topic, "partition": record.partition, "key": _optional(record.key),
        "timestamp": record.timestamp and record.timestamp.isoformat(),
        "headers": {name: _optional(value) for name, value in record.headers} or None,
    }  # fmt: skip
    return json.dumps({**{name: part for name, part in line.items() if part is not None}, "value": _value(record)})


def _value(record: Record) -> object:
    """The value as JSON if it is an object or a list; else its text."""
    text = _optional(record.value)
    if text is None or text[:1] not in {"{", "["}:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _optional(part: bytes | None) -> str | None:
    return None if part is None else _text(part)


def _text(part: bytes) -> str:
    return part.decode("utf-8", "backslashreplace")


def _printable(text: str) -> str:
    """For the eye: no control character of a record reaches the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
