"""More subtasks than partitions are a warning, and no failure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture

IDLE = "at least 2 of 6 subtasks read nothing: one subtask reads a partition, and the source has 4"


async def running(partitions: int, **spec: Any) -> OperatorFixture:
    fixture = OperatorFixture(parallelism=6, **spec)
    await fixture.run()
    fixture.kubernetes.add_executor(KEY, 1)
    fixture.report(1, partitions=partitions)
    await fixture.settle()
    return fixture


async def test_a_parallelism_above_the_partitions_is_an_event_and_a_message() -> None:
    fixture = await running(4)
    assert (fixture.ready["status"], fixture.ready["reason"]) == ("True", "Running")
    assert fixture.ready["message"] == fixture.status["message"] == f"attempt 1 runs; {IDLE}"
    assert fixture.kubernetes.events(warning=True) == ["SubtasksIdle"]
    fixture.report(1, partitions=5)
    await fixture.settle()
    assert "the source has 5" in fixture.status["message"]
    assert fixture.kubernetes.events(warning=True) == ["SubtasksIdle"], "once an attempt and parallelism"
    fixture.report(1, partitions=6)
    await fixture.settle()
    assert fixture.status["message"] == "attempt 1 runs"


@pytest.mark.parametrize(
    ("partitions", "limits"), [(6, {}), (0, {}), (4, {"maxRecordsPerSplit": 1000})], ids=["enough", "unknown", "cut"]
)
async def test_no_warning_where_every_subtask_can_read(partitions: int, limits: dict[str, int]) -> None:
    source = {"topics": ["in"], "limits": limits}
    fixture = await running(partitions, source=source)
    assert fixture.status["message"] == "attempt 1 runs"
    assert fixture.kubernetes.events(warning=True) == []
