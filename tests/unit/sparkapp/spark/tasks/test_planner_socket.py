"""The line between Spark's reader process and the coordinator's."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import AuthenticationError
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from sparkapp.spark.tasks.data_source import KafkaSparkDataSource, KafkaSparkStreamReader
from sparkapp.spark.tasks.planner_socket import PlannerClient, PlannerServer, SubtaskSplits


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
    server = PlannerServer(StandIn(), directory=tmp_path)
    yield server.address
    server.close()


def test_spark_gets_what_is_pending(address: str) -> None:
    reader = KafkaSparkStreamReader("{}", PlannerClient(address))
    assert reader.initialOffset() == {"plan": 3}
    assert reader.reportLatestOffset() == {"plan": 3, "pendingRecords": 7}
    reader.stop()


def test_an_error_of_the_coordinator_is_raised_in_the_reader_that_asked(address: str) -> None:
    client = PlannerClient(address)
    with pytest.raises(RuntimeError, match=r"builtins.ValueError: nothing after 5 for reader 0"):
        client.call("latest", 5)
    other = PlannerClient(address)
    with pytest.raises(RuntimeError, match=r"nothing after 6 for reader 1"):
        other.call("latest", 6)
    client.close()
    other.close()


def test_the_key_is_in_a_private_file_alone(address: str) -> None:
    """An error with a plan shows the options of the source, and it reaches ``status.lastFailure.log``."""
    file = Path(address).with_suffix(".key")
    assert file.stat().st_mode & 0o777 == 0o600
    options = {"job": "{}", "planner": address}
    reader = KafkaSparkDataSource(options).streamReader(StructType())
    key = file.read_bytes()
    assert key not in pickle.dumps(reader)
    assert pickle.loads(pickle.dumps(reader)).initialOffset() == {"plan": 3}
    file.write_bytes(b"k" * len(key))
    with pytest.raises(AuthenticationError):
        PlannerClient(address).call("initial")
