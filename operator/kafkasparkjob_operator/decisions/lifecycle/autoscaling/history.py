"""What the autoscaler remembers of a job: its last decision, and since when another parallelism is wanted.

It is a part of the status, so that it outlives the operator and a person sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.clock import format_time, parse_time

_TIMES = {"since": "since", "effective_since": "effectiveSince", "above_since": "moreWantedSince",
          "below_since": "lessWantedSince", "no_room_since": "noRoomSince"}  # fmt: skip
_NUMBERS = {"parallelism": "parallelism", "of_spec": "specParallelism", "before": "fromParallelism",
            "rescale_seconds": "rescaleSeconds", "capacity": "recordsPerSecondOfSubtask", "below_most": "lessWanted",
            "no_room": "noRoomParallelism"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Fields of ``status.autoscaler``; 0 and None where nothing is known.

    :param parallelism: of the last decision. :param since: of that decision.
    :param of_spec: ``spec.parallelism`` at the decision. Another number there ends it.
    :param before: the parallelism that the decision replaces.
    :param effective_since: when the job ran with it.
    :param rescale_seconds: from the last decision to its effect.
    :param capacity: records a second of a subtask at the decision.
    :param above_since: since when more subtasks are needed without a break.
    :param below_since: since when fewer are enough, and ``below_most`` the most of these.
    :param no_room: the parallelism that found no room, and when that was known.
    """

    parallelism: int = 0
    since: datetime | None = None
    of_spec: int = 0
    before: int = 0
    effective_since: datetime | None = None
    rescale_seconds: int = 0
    capacity: int = 0
    above_since: datetime | None = None
    below_since: datetime | None = None
    below_most: int = 0
    no_room: int = 0
    no_room_since: datetime | None = None

    @property
    def under_way(self) -> bool:
        """Whether a decision has not had its effect."""
        return self.since is not None and self.effective_since is None

    def without_wishes(self) -> History:
        """The same, as far as it does not say what the last loads were."""
        return replace(self, above_since=None, below_since=None, below_most=0)


def history_of(found: object) -> History:
    """Reads ``status.autoscaler``. What is no number or time counts as unknown: a person may have written it."""
    body: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    numbers = {name: _number(body.get(key)) for name, key in _NUMBERS.items()}
    times = {name: parse_time(body.get(key)) for name, key in _TIMES.items()}
    return History(**numbers, **times)  # type: ignore[arg-type]


def body_of(history: History) -> dict[str, Any]:
    """The fields of ``status.autoscaler``, without those that are unknown."""
    numbers = {key: getattr(history, name) for name, key in _NUMBERS.items() if getattr(history, name)}
    times = {key: format_time(at) for name, key in _TIMES.items() if (at := getattr(history, name)) is not None}
    return {**numbers, **times}


def _number(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else 0
