"""Every cell of the fault matrix is one story on real brokers; see ``matrix.py`` for the table, ``rigs.py`` for what
breaks. ``docs/faults.md`` says what each fault comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.faults.matrix import FROM, TO, Cell
from tests.integration.faults.rigs import Rigs
from tests.support.protocol_moments import OF_A_START, End, Moment, TaskMoment

pytestmark = pytest.mark.timeout(300)


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
