"""Every cell of the fault matrix is one story on real brokers; see ``matrix.py`` for the table, ``rigs.py`` for what
breaks. ``docs/internals/faults.md`` says what each fault comes to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.spec import Engine
from tests.integration.faults.matrix import FROM, TO, Cell, OvertakingCell
from tests.integration.faults.rigs import Rigs
from tests.support.protocol.moments import OF_A_START, DriverMoment, End, Moment, TaskMoment
from tests.support.protocol.story import Story

_RECORDS = {Engine.MICRO_BATCH: 60, Engine.CONTINUOUS: 120}
"""For the first checkpoint and the next; and for a third, which has begun in the continuous engine."""


def test_nothing_is_lost_or_twice(cell: Cell, rigs: Rigs, tmp_path: Path) -> None:
    rig = rigs.rig(cell, tmp_path)
    with rig.story() as job:
        job.produce(_RECORDS[cell.engine])
        job.start(FROM)
        job.checkpoint()
        if cell.moment in OF_A_START:
            job.checkpoint((Moment.AFTER_WRITE, End.KILL))
            job.start(FROM, stop=(cell.moment, lambda: rig.strike(job)))
        else:
            abreast = rig.abreast and isinstance(cell.moment, TaskMoment)
            place = cell.ahead.at if cell.ahead is not None else cell.moment
            job.checkpoint((place, lambda: rig.strike(job)), abreast=abreast, ahead=cell.ahead)
        assert rig.struck
        assert cell.ahead is None or job.two_have_run
        job.produce(30)
        rig.aftermath(job)
        if cell.change != "same":
            job.kill()
        assert job.finish(TO[cell.change]) == 0
        rig.judge(job)


def test_a_driver_that_was_overtaken_changes_nothing(
    overtaken: OvertakingCell, broker: str, unique: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    job = Story(
        bootstrap=broker, source=make_topic(3, "in"), sink=make_topic(2, "out"), prefix=unique, client=client,
        naming=overtaken.naming, aligned=overtaken.aligned, engine=overtaken.engine,
    )  # fmt: skip
    try:
        superseded = overtaken.overtaking.play(job)
        assert superseded.failure is not None or overtaken.overtaking.place is DriverMoment.AFTER_DRAIN, "it is refused"
        assert job.finish(TO[overtaken.overtaking.change]) == 0
    finally:
        job.close()
