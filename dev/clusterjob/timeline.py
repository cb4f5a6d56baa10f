"""What a job wrote in each second, as the text of a picture that ``pictures`` draws. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_WIDTH = 960
_RATES_A_LINE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The output of a job.

    :param timestamps: of its records, in milliseconds since 1970.
    :param marks: what happened, by the second since 1970.
    """

    title: str
    timestamps: Iterable[int]
    marks: Mapping[float, str]
    since: float
    """The first second shown, since 1970."""
    until: float


def timeline(title: str, about: str, rows: Sequence[Row]) -> str:
    """The text of the picture, with a row of bars for each job; called by the demo and the bench of restarts.

    :param about: for readers who cannot see the picture.
    """
    lines = [f"picture timeline {_WIDTH}", f"title {title}", f"about {about}"]
    for row in rows:
        by_second = Counter(int(at / 1000 - row.since) for at in row.timestamps if row.since <= at / 1000 < row.until)
        rates = [str(by_second[second]) for second in range(int(row.until - row.since))]
        lines += ["", f"row {row.title}"]
        lines += [f"rates {' '.join(rates[at : at + _RATES_A_LINE])}" for at in range(0, len(rates), _RATES_A_LINE)]
        lines += [f"mark {at - row.since:.1f} {what}" for at, what in sorted(row.marks.items())]
    return "\n".join(lines) + "\n"
