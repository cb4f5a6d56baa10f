"""Every cell of the fault matrix is one story on real brokers; see ``matrix.py`` for the table, ``rigs.py`` for what
breaks. ``docs/internals/faults.md`` says what each fault comes to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparkapp.clients.transactions.client import TransactionClient
from tests.integration.faults.matrix import FROM, TO, Cell, OvertakingCell
from tests.integration.faults.rigs import Rigs
from tests.support.protocol.moments import OF_A_START, DriverMoment, End, Moment, TaskMoment
from tests.support.protocol.story import Story


def test_nothing_is_lost_or_twice(cell: Cell, rigs: Rigs, tmp_path: Path) -> None:
    rig = rigs.rig(cell, tmp_path)
    with rig.story() as job:
        job.produce(60)
        job.start(FROM)
        job.checkpoint()
        if cell.moment in OF_A_START:
            job.checkpoint((Moment.AFTER_WRITE, End.KILL))
            job.start(FROM, stop=(cell.moment, lambda: rig.strike(job)))
        else:
            abreast = rig.abreast and isinstance(cell.moment, TaskMoment)
            job.checkpoint((cell.moment, lambda: rig.strike(job)), abreast=abreast)
        assert rig.struck
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
        naming=overtaken.naming, aligned=overtaken.aligned,
    )  # fmt: skip
    try:
        superseded = overtaken.overtaking.play(job)
        assert superseded.failure is not None or overtaken.overtaking.place is DriverMoment.AFTER_DRAIN, "it is refused"
        assert job.finish(TO[overtaken.overtaking.change]) == 0
    finally:
        job.close()
