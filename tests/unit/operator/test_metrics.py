"""The jobs' series: one process has them."""

from __future__ import annotations

from kafkasparkjob_operator.metrics import OperatorMetrics
from tests.support.operator_bench import OperatorBench


async def test_only_who_acts_has_the_jobs_series() -> None:
    bench = OperatorBench()
    await bench.run(1)
    metrics = OperatorMetrics(bench.cache, tells_of_jobs=lambda: bench.leading)
    series = b'kafkaspark_job_ready{job="orders",namespace="team"} 1.0'
    assert series in metrics.render()
    bench.leading = False
    assert b"{job=" not in metrics.render()
    assert b"kafkaspark_operator_leader" in metrics.render()
    bench.leading = True
    assert series in metrics.render()
