"""The line between Spark's reader process and the coordinator's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sparkapp.spark.tasks.data_source import KafkaSparkStreamReader
from sparkapp.spark.tasks.planner_socket import PlannerClient, PlannerServer, SubtaskSplits

KEY = b"k" * 32


class StandIn:
    def initial(self) -> int:
        return 3

    def latest(self, start: int, reader: int) -> int:
        msg = f"nothing after {start} for reader {reader}"
        raise ValueError(msg)

    def partitions(self, start: int, end: int) -> tuple[Sequence[SubtaskSplits], frozenset[str]]:
        return [], frozenset({"value"})

    def progress(self) -> Mapping[str, int]:
        return {"plan": 3, "pendingRecords": 7}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    server = PlannerServer(StandIn(), directory=tmp_path, key=KEY)
    yield server.address
    server.close()


def test_spark_gets_what_is_pending(address: str) -> None:
    reader = KafkaSparkStreamReader("{}", PlannerClient(address, KEY))
    assert reader.initialOffset() == {"plan": 3}
    assert reader.reportLatestOffset() == {"plan": 3, "pendingRecords": 7}
    reader.stop()


def test_an_error_of_the_coordinator_is_raised_in_the_reader_that_asked(address: str) -> None:
    client = PlannerClient(address, KEY)
    with pytest.raises(RuntimeError, match=r"builtins.ValueError: nothing after 5 for reader 0"):
        client.call("latest", 5)
    other = PlannerClient(address, KEY)
    with pytest.raises(RuntimeError, match=r"nothing after 6 for reader 1"):
        other.call("latest", 6)
    client.close()
    other.close()
