"""A story of the nemesis: work, the outage at its moment, work under the same ids, and the count."""

from __future__ import annotations

from sparkapp.clients.transactions.client import TransactionClient
from tests.soak.kinds import Pace
from tests.soak.nemesis.meeting import Seat
from tests.soak.nemesis.plan import Plan
from tests.support.protocol.moments import End, Loss, TaskMoment
from tests.support.protocol.story import Story

_OUTAGE_SECONDS = 240.0
_RECORDS = 18
_MOST_STARTS = 6
"""Behind the outage. An attempt that finds offsets without a marker waits for half a minute."""


class Play:
    """Made for a seed.

    :param prefix: of its transactional ids and topics, and its group.
    """

    def __init__(self, plan: Plan, bootstrap: str, prefix: str, client: TransactionClient, seat: Seat) -> None:
        self._plan, self._seat = plan, seat
        self.story = Story(
            bootstrap=bootstrap, source=f"{prefix}.in", sink=f"{prefix}.out", prefix=prefix, client=client,
            partitions=len(plan.source), naming=plan.naming, aligned=plan.aligned, engine=plan.kind.engine,
            local_pace=plan.kind.pace is Pace.LOCAL, letters=f"{prefix}.dead" if plan.letters else "", patience=20.0,
            most_starts=_MOST_STARTS,
        )  # fmt: skip

    def run(self) -> None:
        """:raises AssertionError: a record is lost or repeated, or a transaction open, for readers and coordinators."""
        story, plan = self.story, self._plan
        story.history.append(str(plan))
        try:
            story.produce(_RECORDS)
            self._start()
            self._checkpoint()
            self._strike()
            self._during()
            self._seat.await_end(_OUTAGE_SECONDS)
            self._again()
            story.finish(plan.parallelism)
        finally:
            self._seat.give_up()
            self._seat.await_end(_OUTAGE_SECONDS)
            story.close()

    def _strike(self) -> None:
        """The act in which the outage strikes."""
        story, plan = self.story, self._plan
        story.produce(_RECORDS)
        place = plan.place
        if plan.crash is not None and story.running:
            story.checkpoint((plan.crash, End.KILL))
        if place is None or plan.act == "between":
            self._incident()
        elif plan.act == "start":
            self._start_in_it(place)
        elif not story.running:
            pass
        elif plan.act == "drain":
            story.drain((place, self._incident))
        else:
            story.checkpoint((place, self._incident))
        self._seat.give_up()

    def _start_in_it(self, place: object) -> None:
        self.story.start(self._plan.parallelism, self._plan.pool, (place, self._incident))  # type: ignore[arg-type]

    def _incident(self) -> End | Loss | None:
        self._seat.arrive()
        self.story.history.append("  the outage")
        if self._plan.end is not None:
            return self._plan.end
        return self._plan.loss if not isinstance(self._plan.place, TaskMoment) else None

    def _during(self) -> None:
        """While the outage lasts, if it still does."""
        plan = self._plan
        if not self.story.running and plan.starts_at_once:
            self._start()
        if self.story.running:
            self.story.checkpoint()

    def _again(self) -> None:
        """The outage is over; the ids come again."""
        story, plan = self.story, self._plan
        story.history.append("  the outage is over")
        for _ in range(plan.again):
            self._work()
        if plan.last is not None:
            story.produce(_RECORDS)
            self._start()
            if story.running:
                story.checkpoint((plan.last, End.KILL))
        elif story.running:
            story.drain()
        story.produce(_RECORDS)

    def _work(self) -> None:
        self.story.produce(_RECORDS)
        self._start()
        self._checkpoint()

    def _start(self) -> None:
        if not self.story.running:
            self.story.start(self._plan.parallelism, self._plan.pool)

    def _checkpoint(self) -> None:
        if self.story.running:
            self.story.checkpoint()
