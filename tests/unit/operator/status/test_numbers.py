"""Numbers of the status: a total counts from the job's first start, and never says what an attempt does not know."""

from __future__ import annotations

import pytest

from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import FAILED, KEY, OperatorFixture

TOTALS = {"records_in": 60, "records_out": 50, "transactions_committed": 7, "transactions_aborted": 1}


def shown(operator_fixture: OperatorFixture) -> list[int]:
    status = operator_fixture.status
    transactions = status["transactions"]
    return [
        status["source"]["recordsIn"], status["sink"]["recordsOut"], transactions["committed"], transactions["aborted"],
        status["source"]["partitions"], status["checkpoint"]["durationMillis"], status["checkpoint"]["bytes"],
    ]  # fmt: skip


@pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.RECOVERING, DriverState.DRAINING])
async def test_totals_keep_their_values_until_the_next_attempt_has_read_them(state: DriverState) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    checkpoint = {"checkpoint_time": "2026-11-21T12:00:00Z", "checkpoint_duration_millis": 40, "checkpoint_bytes": 900}
    operator_fixture.report(1, totals_known=True, checkpoint_id=10, partitions=4, **checkpoint, **TOTALS)
    await operator_fixture.settle()
    before = shown(operator_fixture)
    assert before == [60, 50, 7, 1, 4, 40, 900]
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(600)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs(names.driver_pod(KEY.name, 2))
    operator_fixture.report(2, state)
    await operator_fixture.settle()
    assert shown(operator_fixture) == before
    recovered = {**TOTALS, "records_out": 55}
    operator_fixture.report(2, DriverState.RECOVERING, totals_known=True, checkpoint_id=11, partitions=5, **recovered)
    await operator_fixture.settle()
    assert shown(operator_fixture) == [60, 55, 7, 1, 5, 40, 900]


async def test_a_job_without_a_driver_has_no_rate() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    operator_fixture.report(1, records_per_second=40, records_in_per_second=50)
    await operator_fixture.settle()
    rates = [operator_fixture.status[side]["recordsPerSecond"] for side in ("source", "sink")]
    assert rates == [50, 40]
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    for side in ("source", "sink"):
        assert "recordsPerSecond" not in operator_fixture.status.get(side, {})
