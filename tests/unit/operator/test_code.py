"""A changed ConfigMap of the user's modules rolls the job, also one that has failed."""

from __future__ import annotations

import pytest

from kafkasparkjob_operator.code_watch import CodeWatch
from tests.support.operator_bench import DRAINED, FATAL, KEY, OperatorBench

PYTHON = {"python": {"function": "enrich:transform", "configMapRef": {"name": "modules"}}}


def put_code(bench: OperatorBench, text: str) -> None:
    bench.kubernetes.objects["ConfigMap", "team", "modules"] = {
        "kind": "ConfigMap",
        "metadata": {"namespace": "team", "name": "modules", "uid": "m", "resourceVersion": "1"},
        "data": {"enrich.py": text},
    }


async def found_by_the_watch(bench: OperatorBench) -> None:
    await CodeWatch(bench.kubernetes, bench.cache, bench.queue).look(KEY)
    assert len(bench.queue) == 1
    await bench.reconciler.reconcile(KEY)


@pytest.fixture
async def bench() -> OperatorBench:
    bench = OperatorBench(transform=PYTHON)
    put_code(bench, "one")
    await bench.run()
    assert bench.status["attempt"]["codeDigest"]
    return bench


async def test_a_changed_module_drains_the_attempt_and_the_next_one_starts_with_it(bench: OperatorBench) -> None:
    put_code(bench, "two")
    await found_by_the_watch(bench)
    assert (bench.status["state"], bench.status["reason"]) == ("Restarting", "CodeChanged")
    assert "deletionTimestamp" in bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert "CodeChanged" in bench.kubernetes.events()
    await bench.run(2)
    assert bench.drivers == ["orders-2-driver"], "once"


async def test_a_job_that_its_code_has_failed_starts_again_when_the_code_is_corrected(bench: OperatorBench) -> None:
    bench.driver_ends(1, FATAL)
    await bench.settle()
    bench.wait(3600)
    await bench.settle()
    assert bench.status["state"] == "Failed"
    put_code(bench, "two")
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["restarts"]["consecutiveFailures"] == 0


async def test_a_config_map_that_is_gone_stops_nothing(bench: OperatorBench) -> None:
    del bench.kubernetes.objects["ConfigMap", "team", "modules"]
    await bench.settle()
    assert bench.ready["reason"] == "Running"


async def test_a_standby_with_the_modules_of_before_gets_no_turn() -> None:
    bench = OperatorBench(transform=PYTHON, restartPolicy={"successor": "Standby"})
    put_code(bench, "one")
    await bench.run()
    bench.wait(60)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver", "orders-2-driver"]
    bench.kubernetes.pod_runs("orders-2-driver")
    put_code(bench, "two")
    await bench.settle()
    bench.driver_ends(1, DRAINED)
    bench.driver_ends(2, DRAINED)
    await bench.settle()
    assert bench.drivers == ["orders-3-driver"]
