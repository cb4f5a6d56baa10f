"""``spec.autoscaler``: the bounds and the pace of a parallelism that follows the load. Only the operator reads it."""

from __future__ import annotations

from datetime import datetime

from sparkapp.model.checkpoint.naming import MAX_PARALLELISM
from sparkapp.model.encoding.schema import Form, at, items_of, part
from sparkapp.model.errors import ConfigurationError

MAX_PERIODS = 16
_TIME_OF_DAY: Form = {"pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "maxLength": 5}


WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""In the order of :meth:`datetime.datetime.weekday`."""


@part
class ExcludedPeriod:
    """An entry of ``excludedPeriods``.

    :param days: empty for every day.
    """

    days: tuple[str, ...] = at(
        "Days on which the period begins. By default every day.",
        default=(),
        form=items_of(0, len(WEEK), is_set=True),
        each={"enum": list(WEEK)},
    )
    begins: str = at("Begin of the period as HH:MM, in UTC.", path="from", form=_TIME_OF_DAY)
    ends: str = at(
        "End of the period as HH:MM, in UTC. It is on the next day where it is not later than the begin.",
        path="to",
        form=_TIME_OF_DAY,
    )

    def includes(self, moment: datetime) -> bool:
        """Whether the moment, in UTC, is within the period."""
        clock = moment.strftime("%H:%M")
        today, yesterday = WEEK[moment.weekday()], WEEK[moment.weekday() - 1]
        if self.begins < self.ends:
            return self._has(today) and self.begins <= clock < self.ends
        return (self._has(today) and clock >= self.begins) or (self._has(yesterday) and clock < self.ends)

    def _has(self, day: str) -> bool:
        return not self.days or day in self.days


@part
class Autoscaler:
    """``spec.autoscaler``."""

    max_parallelism: int = at(
        "Largest parallelism. Above the number of the source's partitions it has no effect.",
        low=1,
        high=MAX_PARALLELISM,
    )
    min_parallelism: int = at("Smallest parallelism.", default=1, low=1, high=MAX_PARALLELISM)
    target_utilization: int = at(
        "Share of its time that the busiest subtask is to work, in percent, once there is no backlog.",
        default=70,
        low=10,
        high=95,
    )
    stabilization_seconds: int = at(
        "Time that a need for more subtasks must last, in seconds. As long nothing is changed after a start or a"
        " rescale.",
        default=60,
        low=0,
        high=86400,
    )
    scale_down_delay_seconds: int = at(
        "Time for which fewer subtasks must have been enough without a break, in seconds. The job then gets the most"
        " that it has needed in that time.",
        default=600,
        low=0,
        high=604800,
    )
    catch_up_seconds: int = at(
        "Time in which a backlog is to be read, in seconds. A longer time needs fewer subtasks.",
        default=300,
        low=1,
        high=86400,
    )
    dry_run: bool = at("True explains each decision in status and events, and changes nothing.", default=False)
    excluded_periods: tuple[ExcludedPeriod, ...] = at(
        "Periods in which the parallelism stays as it is.", default=(), form=items_of(0, MAX_PERIODS)
    )

    def bounded(self, parallelism: int) -> int:
        """The parallelism within the bounds."""
        return min(max(parallelism, self.min_parallelism), self.max_parallelism)

    def takes_back(self, runs: int, wanted: int) -> bool:
        """Whether a growth that has found no room is the autoscaler's, which remembers that. Else it is refused."""
        return not self.dry_run and runs < wanted and self.bounded(runs) == runs

    def excludes(self, moment: datetime) -> bool:
        """Whether a period includes the moment, in UTC."""
        return any(period.includes(moment) for period in self.excluded_periods)


def checked_autoscaler(found: Autoscaler | None) -> Autoscaler | None:
    """:raises ConfigurationError: the bounds contradict each other, or a time is none."""
    if found is None:
        return None
    if found.min_parallelism > found.max_parallelism:
        msg = (
            f"spec.autoscaler.minParallelism ({found.min_parallelism}) must not exceed"
            f" spec.autoscaler.maxParallelism ({found.max_parallelism})"
        )
        raise ConfigurationError(msg, remedy="lower minParallelism, or raise maxParallelism")
    for index, period in enumerate(found.excluded_periods):
        for name, text in (("from", period.begins), ("to", period.ends)):
            if not _is_time(text):
                msg = f"spec.autoscaler.excludedPeriods[{index}].{name} must be a time of day as HH:MM"
                raise ConfigurationError(msg, remedy="write it with two digits each, for instance 07:30")
        if not set(period.days) <= set(WEEK):
            msg = f"spec.autoscaler.excludedPeriods[{index}].days takes {', '.join(WEEK)}"
            raise ConfigurationError(msg)
    return found


def _is_time(text: str) -> bool:
    hours, _, minutes = text.partition(":")
    parts = [hours, minutes]
    if not all(len(each) == 2 and each.isascii() and each.isdigit() for each in parts):
        return False
    return int(hours) < 24 and int(minutes) < 60
