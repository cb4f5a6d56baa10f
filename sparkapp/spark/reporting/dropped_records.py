"""Judges records of a job, a topic or a schema that are dropped: all of them in a row, or a large share."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkapp.clients.deadline import Clock
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.source.record_tally import SCHEMA, TOPIC, TRANSFORM, Example, Group, Tally

MIN_DROPPED = 3
"""Bad records in a row. A rare bad record of a quiet topic is no finding."""
HIGH_SHARE, MIN_RECORDS, WINDOW_SECONDS = 0.1, 100, 60.0
"""The share of dropped records that is a finding, among at least this number of records within this time.

The finding ends at half of the share.
"""
_SAMPLE_SECONDS = 1.0
_JOB = "job"
_PARSED, _TRANSFORMED = Group(_JOB, ""), Group(_JOB, TRANSFORM)
_WIDEST_FIRST = (_JOB, TOPIC, TRANSFORM, SCHEMA)


@dataclass
class _Run:
    """A group of records.

    :param samples: times and totals of the window, the oldest first.
    :ivar dropped: since the last record that was not.
    :ivar window: records of the window, of which ``share`` were dropped.
    """

    samples: deque[tuple[float, Tally]]
    before: Tally = field(default_factory=Tally)
    dropped: int = 0
    window: int = 0
    share: float = 0.0
    is_high: bool = False
    example: Example | None = None

    @property
    def is_all(self) -> bool:
        return self.dropped >= MIN_DROPPED

    def follow(self, tally: Tally, now: float) -> None:
        if tally.parsed > self.before.parsed:
            self.dropped = 0
        else:
            self.dropped += tally.bad - self.before.bad
        self.before, self.example = tally, tally.example or self.example
        while len(self.samples) > 1 and self.samples[1][0] <= now - WINDOW_SECONDS:
            self.samples.popleft()
        _, first = self.samples[0]
        bad = tally.bad - first.bad
        self.window = tally.parsed - first.parsed + bad
        self.share = bad / self.window if self.window >= MIN_RECORDS else 0.0
        self.is_high = self.share > (HIGH_SHARE / 2 if self.is_high else HIGH_SHARE)
        if now >= self.samples[-1][0] + _SAMPLE_SECONDS:
            self.samples.append((now, tally))


class DroppedRecords:
    """Made for an attempt with Skip or DeadLetter, and asked after each checkpoint.

    :param clock: monotonic, in seconds.
    :ivar judged: whether any record of the attempt was parsed, transformed or dropped.
    """

    def __init__(self, errors: RecordErrors, *, clock: Clock = time.monotonic) -> None:
        letters = f"written to topic {errors.dead_letter_topic}"
        policies = {False: errors.policy, True: errors.transform_policy}
        self._fates = {
            is_transform: letters if policy is OnRecordError.DEAD_LETTER else "skipped"
            for is_transform, policy in policies.items()
        }
        self._clock = clock
        self._began = clock()
        self._runs: dict[Group, _Run] = {}
        self._shown: tuple[Group, bool, float] | None = None
        self._text = ""
        self.judged = False

    def judge(self, tallies: Mapping[Group, Tally]) -> str:
        """The finding as a text, or nothing. Its number is renewed when it has doubled, so that the text is stable.

        :param tallies: totals of the attempt.
        """
        now = self._clock()
        whole = {_PARSED: _sum_of(TOPIC, tallies), _TRANSFORMED: _sum_of(TRANSFORM, tallies)}
        self.judged = self.judged or any(tally.parsed + tally.bad for tally in whole.values())
        for group, tally in {**whole, **tallies}.items():
            run = self._runs.setdefault(group, _Run(deque([(self._began, Tally())])))
            run.follow(tally, now)
        found = [group for group, run in self._runs.items() if run.is_all or run.is_high]
        if not found:
            self._shown, self._text = None, ""
            return ""
        worst = min(found, key=self._rank)
        run = self._runs[worst]
        number = float(run.dropped) if run.is_all else run.share
        if self._shown is None or self._shown[:2] != (worst, run.is_all) or number >= 2 * self._shown[2]:
            self._shown, self._text = (worst, run.is_all, number), self._told(worst, run)
        return self._text

    def _rank(self, group: Group) -> tuple[bool, int, float, Group]:
        """All records of a narrow group are worse than some of a wide group."""
        run = self._runs[group]
        number = float(run.dropped) if run.is_all else run.share
        return not run.is_all, _WIDEST_FIRST.index(group.kind), -number, group

    def _told(self, group: Group, run: _Run) -> str:
        is_transform = TRANSFORM in group
        of = "" if group.kind == _JOB else f" of {TOPIC if is_transform else group.kind} {group.name}"
        part, count = ("all", run.dropped) if run.is_all else (f"{100 * run.share:.0f} %", run.window)
        fate = self._fates[is_transform]
        records = f"{part} of the last {count} records{of}"
        text = f"the transform fails for {records}, which were {fate}" if is_transform else f"{records} were {fate}"
        if run.example is None:
            return text
        topic, partition, offset, error = run.example
        return f"{text}, for example topic {topic}, partition {partition}, offset {offset}: {error}"


def _sum_of(kind: str, tallies: Mapping[Group, Tally]) -> Tally:
    found = [tally for group, tally in tallies.items() if group.kind == kind]
    return Tally(
        sum(tally.parsed for tally in found), sum(tally.bad for tally in found),
        next((tally.example for tally in found if tally.example is not None), None),
    )  # fmt: skip
