"""``kafkaspark dev --bootstrap``: the job on a broker. A change of a file stops it at a checkpoint and resumes it."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from kafkaspark.cluster_topics import Topics
from kafkaspark.dev.attempts import Attempts
from kafkaspark.dev.broker_job import broker_job
from kafkaspark.dev.job_files import JobFiles
from kafkaspark.dev.screen import Screen
from kafkaspark.dev.watch import changed_since
from kafkaspark.local.project import Project
from kafkaspark.local.records import Record
from sparkapp.model.errors import CommandRefused, KafkaSparkJobError
from sparkapp.model.job.spec import Job
from sparkapp.model.report import AttemptOutcome, DriverState, Report, Termination

STATE = ".kafkaspark"
_SECONDS = 30.0


class BrokerRounds:
    """Attempts of the job, one for each state of its files."""

    def __init__(self, options: argparse.Namespace, screen: Screen) -> None:
        self._options = options
        self._screen = screen
        self._topics = Topics({"bootstrap.servers": options.bootstrap})
        self._files = JobFiles(options)
        self._attempts: Attempts | None = None
        self._produced = 0
        self._is_tailed = False

    def run(self) -> int:
        """The exit status. Without ``--once`` it ends by an interrupt alone."""
        try:
            return self._rounds()
        except KeyboardInterrupt:
            if self._attempts is not None:
                self._screen.stops()
                self._ended(self._attempts.stop())
            return 0

    def _rounds(self) -> int:
        while True:
            self._files.begin()
            status = self._begin()
            if status and self._options.once:
                return status
            if status:
                self._screen.waits()
            changed = self._follow()
            if self._options.once:
                return self._ended(self._attempts.stop() if self._attempts is not None else None)
            self._screen.begins(changed)
            if self._attempts is not None:
                self._ended(self._attempts.stop())

    def _begin(self) -> int:
        """Starts an attempt; the exit status of ``--once`` if it cannot."""
        options = self._options
        try:
            project, records = self._files.read()
            job = broker_job(
                project.job, bootstrap=options.bootstrap, as_is=options.as_is, writes_source=options.input is not None
            )  # fmt: skip
            self._prepare_topics(job, records, renamed=job.spec.source.topics != project.job.spec.source.topics)
            self._start(job, project)
        except KafkaSparkJobError as error:
            return self._screen.refuses(error)
        return 0

    def _start(self, job: Job, project: Project) -> None:
        folder = self._options.state or self._options.file.parent / STATE / job.name
        if self._attempts is None:
            self._attempts = Attempts(folder.resolve(), self._screen.says)
        self._screen.begins_on_broker(job, project, folder)
        if self._options.tail and not self._is_tailed:
            self._is_tailed = True
            threading.Thread(target=self._tail, args=(job.spec.sink.topic,), daemon=True).start()
        self._attempts.start(job, project.files, project.environment)

    def _follow(self) -> list[Path]:
        """Returns when files have changed; with ``--once`` when all records are read, or the attempt has ended."""
        shown: Report | None = None
        is_told = False
        while True:
            changed = changed_since(self._files.watched)
            if changed and not self._options.once:
                return changed
            attempts = self._attempts
            report = attempts.report if attempts is not None else None
            if report is not None and (shown is None or report.checkpoint_id != shown.checkpoint_id):
                self._screen.progresses(report)
                shown = report
            is_over = attempts is None or not attempts.is_running
            if self._options.once and (is_over or _has_read_all(report)):
                return []
            if is_over and attempts is not None and not is_told:
                self._ended(attempts.stop())
                self._screen.waits()
                is_told = True

    def _ended(self, termination: Termination | None) -> int:
        if termination is None:
            return 1
        self._screen.ended(termination)
        return 1 if termination.outcome is AttemptOutcome.FAILED else 0

    def _prepare_topics(self, job: Job, records: Sequence[Record], *, renamed: bool) -> None:
        """Creates the topics of developers that are missing, and writes the new records of the input.

        :param renamed: whether the source's topics are a developer's.
        """
        spec = job.spec
        wanted = [] if self._options.as_is else [spec.sink.topic, spec.record_errors.dead_letter_topic]
        wanted += spec.source.topics if renamed else ()
        known = {row["topic"] for row in self._topics.listing()}
        for topic in wanted:
            if topic and topic not in known:
                self._topics.create(topic, partitions=spec.parallelism, replicas=None, settings={})
        new = records[self._produced :]
        self._produced = len(records)
        if new:
            from kafkaspark.dev.broker_job import SUFFIX

            self._produce([(_topic(record, spec.source.topics, SUFFIX if renamed else ""), record) for record in new])
            self._screen.says(f"{len(new)} records of {self._options.input} written to {', '.join(spec.source.topics)}")

    def _produce(self, records: Sequence[tuple[str, Record]]) -> None:
        """
        :raises CommandRefused: the broker does not take them.
        """
        from confluent_kafka import KafkaException, Producer

        producer = Producer({"bootstrap.servers": self._options.bootstrap, "enable.idempotence": True, "log_level": 0})
        try:
            for topic, record in records:
                producer.produce(
                    topic, record.value, record.key, -1 if record.partition is None else record.partition,
                    headers=list(record.headers),
                    timestamp=0 if record.timestamp is None else round(record.timestamp.timestamp() * 1000),
                )  # fmt: skip
                producer.poll(0)
            left = producer.flush(_SECONDS)
        except (KafkaException, BufferError) as error:
            msg = f"the records of {self._options.input} were not written: {error}"
            raise CommandRefused(msg, remedy=f"kafkaspark topic list --bootstrap {self._options.bootstrap}") from error
        if left:
            msg = f"{left} records of {self._options.input} were not written in {_SECONDS:g} s"
            raise CommandRefused(msg, remedy=f"kafkaspark topic list --bootstrap {self._options.bootstrap}")

    def _tail(self, topic: str) -> None:
        try:
            for record in self._topics.records(topic, first=False, follow=True, uncommitted=False):
                print(record.as_json() if self._options.output == "json" else record.as_line(), flush=True)
        except CommandRefused as refusal:
            self._screen.fails(refusal)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _topic(record: Record, topics: Sequence[str], suffix: str) -> str:
    return record.topic + suffix if record.topic else topics[0]


def _has_read_all(report: Report | None) -> bool:
    return (
        report is not None and report.state is DriverState.RUNNING and report.lag_records == 0
        and report.checkpoint_id > 0
    )  # fmt: skip
