"""The oracle: compares the records of the sink with the records expected from the source. Pure.

A record is identified by its unique number, never by its position. A restart, a rescale or another partition therefore
does not change which records count as lost or duplicate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from clusterjob.kafka.reading import ReadRecord

Expectation = Callable[[dict[str, Any]], dict[str, Any]]
"""Maps a source record's JSON object to the object that the sink must hold."""

ID = "id"
"""Field with the unique number of a record."""

MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a comparison.

    :param records_in: records in the source topic.
    :param records_out: records that a read_committed reader gets from the sink.
    :param lost: source records with no record in the sink.
    :param duplicates: records in the sink beyond the first for a source record.
    :param wrong: records in the sink with a content or key that is not expected, or without a source record.
    :param examples: descriptions of a few lost, duplicate or wrong records.
    """

    records_in: int
    records_out: int
    lost: int
    duplicates: int
    wrong: int
    examples: tuple[str, ...] = ()

    @property
    def exactly_once(self) -> bool:
        """Whether every record is there exactly once with the expected content."""
        return self.lost == self.duplicates == self.wrong == 0

    def explain(self) -> str:
        """The counts in a line, for assertions and the end of the demo."""
        counts = f"in {self.records_in}, out {self.records_out}, lost {self.lost}, duplicates {self.duplicates}"
        return "; ".join((f"{counts}, wrong {self.wrong}", *self.examples))


def same(record: dict[str, Any]) -> dict[str, Any]:
    """The expectation of a job without a transform."""
    return record


def compare(source: Iterable[ReadRecord], sink: Iterable[ReadRecord], *, expect: Expectation) -> Verdict:
    """Compares the sink with the source.

    :raises ValueError: a source record has no number, or a number that another source record has.
    """
    wanted = _expectations(source, expect)
    seen: set[int] = set()
    out = duplicates = wrong = 0
    examples: list[str] = []
    for record in sink:
        out += 1
        found = _object(record.value)
        number = found.get(ID) if found is not None else None
        if found is None or not isinstance(number, int) or number not in wanted:
            wrong += 1
            examples.append(f"no source record for {record.value!r}")
            continue
        if number in seen:
            duplicates += 1
            examples.append(f"record {number} is duplicate, in partition {record.partition}")
            continue
        seen.add(number)
        key, value = wanted[number]
        if record.key != key or found != value:
            wrong += 1
            examples.append(f"record {number} is {record.key!r} {found}, not {key!r} {value}")
    lost = sorted(wanted.keys() - seen)
    if lost:
        examples.insert(0, f"first lost: {', '.join(str(number) for number in lost[:MAX_EXAMPLES])}")
    return Verdict(
        records_in=len(wanted), records_out=out, lost=len(lost), duplicates=duplicates, wrong=wrong,
        examples=tuple(examples[:MAX_EXAMPLES]),
    )  # fmt: skip


def longest_pause(sink: Iterable[ReadRecord], *, since: float, until: float) -> float:
    """The longest time without a written record, in seconds, of those that overlap a window of wall clock time.

    :param since: seconds since 1970, as ``until``.
    :returns: 0.0 where fewer than two records are near the window.
    """
    times = sorted({record.timestamp for record in sink})
    pauses = [
        (later - earlier) / 1000
        for earlier, later in pairwise(times)
        if later >= since * 1000 and earlier <= until * 1000
    ]
    return max(pauses, default=0.0)


def _expectations(source: Iterable[ReadRecord], expect: Expectation) -> dict[int, tuple[bytes | None, dict[str, Any]]]:
    wanted: dict[int, tuple[bytes | None, dict[str, Any]]] = {}
    for record in source:
        body = _object(record.value)
        if body is None or not isinstance(body.get(ID), int) or body[ID] in wanted:
            msg = f"a record of the source topic has no unique number: {record.value!r}"
            raise ValueError(msg)
        wanted[body[ID]] = (record.key, expect(body))
    return wanted


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        body = json.loads(value) if value is not None else None
    except ValueError:
        return None
    return body if isinstance(body, dict) else None
