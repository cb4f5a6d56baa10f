"""Judges whether all records of a job, a topic or a schema are dropped: then the format is wrong, not a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkapp.model.job.sections.record_errors import RecordErrors
from sparkapp.source.record_tally import SCHEMA, TOPIC, Example, Group, Tally

MIN_DROPPED = 3
"""Bad records in a row. A rare bad record of a quiet topic is no finding."""
_ALL = Group("job", "")
_WIDEST_FIRST = ("job", TOPIC, SCHEMA)


@dataclass
class _Run:
    """Records of a group that were dropped since the last that parsed."""

    before: Tally = field(default_factory=Tally)
    dropped: int = 0
    example: Example | None = None


class DroppedRecords:
    """Made for an attempt with Skip or DeadLetter, and asked after each checkpoint.

    :ivar judged: whether any record of the attempt was parsed or dropped.
    """

    def __init__(self, errors: RecordErrors) -> None:
        topic = errors.dead_letter_topic
        self._fate = f"written to topic {topic}" if topic else "skipped"
        self._runs: dict[Group, _Run] = {}
        self._shown: tuple[Group, int] | None = None
        self._text = ""
        self.judged = False

    def judge(self, tallies: Mapping[Group, Tally]) -> str:
        """The finding as a text, or nothing. Its number is renewed when it has doubled, so that the text is stable.

        :param tallies: totals of the attempt.
        """
        topics = [tally for group, tally in tallies.items() if group.kind == TOPIC]
        together = Tally(
            sum(tally.parsed for tally in topics), sum(tally.bad for tally in topics),
            next((tally.example for tally in topics if tally.example is not None), None),
        )  # fmt: skip
        self.judged = self.judged or together.parsed + together.bad > 0
        for group, tally in {_ALL: together, **tallies}.items():
            self._follow(self._runs.setdefault(group, _Run()), tally)
        found = [group for group, run in self._runs.items() if run.dropped >= MIN_DROPPED]
        if not found:
            self._shown, self._text = None, ""
            return ""
        worst = min(found, key=lambda group: (_WIDEST_FIRST.index(group.kind), -self._runs[group].dropped, group))
        dropped = self._runs[worst].dropped
        if self._shown is None or self._shown[0] != worst or dropped >= 2 * self._shown[1]:
            self._shown, self._text = (worst, dropped), self._told(worst, self._runs[worst])
        return self._text

    @staticmethod
    def _follow(run: _Run, tally: Tally) -> None:
        if tally.parsed > run.before.parsed:
            run.dropped = 0
        else:
            run.dropped += tally.bad - run.before.bad
        run.before, run.example = tally, tally.example or run.example

    def _told(self, group: Group, run: _Run) -> str:
        of = "" if group == _ALL else f" of {group.kind} {group.name}"
        text = f"all of the last {run.dropped} records{of} were {self._fate}"
        if run.example is None:
            return text
        topic, partition, offset, error = run.example
        return f"{text}, for example topic {topic}, partition {partition}, offset {offset}: {error}"
