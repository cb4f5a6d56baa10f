"""The jobs' series: one process has them."""

from __future__ import annotations

from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from tests.support.kubernetes.operator_fixture import OperatorFixture


async def test_only_who_acts_has_the_jobs_series() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    metrics = OperatorMetrics(operator_fixture.cache, exports_jobs=lambda: operator_fixture.leading)
    series = b'kafkaspark_job_ready{job="orders",namespace="team"} 1.0'
    assert series in metrics.render()
    operator_fixture.leading = False
    assert b"{job=" not in metrics.render()
    assert b"kafkaspark_operator_leader" in metrics.render()
    operator_fixture.leading = True
    assert series in metrics.render()
