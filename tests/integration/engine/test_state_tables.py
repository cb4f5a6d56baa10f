"""Joins with a table: a topic whose last record of a key counts, through kills and rescales; and files.

A compacted topic is a table by ``transformWithState``: its rows are state, and a job goes back with them.
Files are listed when an attempt begins.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import Transform
from tests.integration.engine.conftest import LocalJobs, StateStories
from tests.support.jobs.local_job import LocalJob, produce_json
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer

pytestmark = pytest.mark.spark

_MODULE = """
from pyspark.sql import Row, functions as f
from pyspark.sql.streaming import StatefulProcessor


class Customers(StatefulProcessor):
    def init(self, handle):
        self.customer = handle.getValueState("customer", "name STRING")

    def handleInputRows(self, key, rows, timerValues):
        for row in sorted(rows, key=lambda row: (row.timestamp, row.is_order)):
            if row.is_order:
                name = self.customer.get()[0] if self.customer.exists() else "nobody"
                yield Row(value=f"{row.id} {name}")
            elif row.name is None:
                self.customer.clear()
            else:
                self.customer.update((row.name,))

    def close(self):
        pass


def from_a_topic(source):
    customer = f.coalesce("value.customer", f.col("key").cast("string"))
    rows = source.select(
        customer.alias("customer"), "value.id", "value.name", "timestamp",
        f.col("topic").contains(".orders.").alias("is_order"),
    )
    return rows.groupBy("customer").transformWithState(
        statefulProcessor=Customers(), outputStructType="value STRING", outputMode="Append", timeMode="None"
    )


def from_files(source):
    customers = source.sparkSession.read.schema("customer STRING, name STRING").json("FOLDER")
    found = source.select("value.id", "value.customer").join(customers, "customer", "left")
    return found.select(f.concat_ws(" ", "id", f.coalesce("name", f.lit("nobody"))).alias("value"))
"""
CUSTOMERS = 60


def table(names: dict[int, str | None]) -> list[tuple[str, str | None]]:
    """Keys and values of a compacted topic; without a value the row is deleted."""
    return [
        (f"c{number}", None if name is None else json.dumps({"name": name}))
        for number, name in names.items()
    ]  # fmt: skip


def orders(numbers: range) -> list[dict[str, object]]:
    return [{"id": number, "customer": f"c{number % CUSTOMERS}"} for number in numbers]


def write_table(broker: str, topic: str, rows: list[tuple[str, str | None]]) -> None:
    producer = idempotent_producer(broker)
    for key, value in rows:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0


def job_of(local_job: LocalJobs, tmp_path: Path, function: str, *topics: str, is_stateful: bool) -> LocalJob:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "tables.py").write_text(_MODULE.replace("FOLDER", str(tmp_path / "customers")))
    return local_job(
        partitions=2, topics=topics, transform=Transform(function=f"tables:{function}"), code=tmp_path / "code",
        stateful=is_stateful, max_offsets=25, value_format=Format.JSON,
        value_schema="id BIGINT, customer STRING, name STRING",
    )  # fmt: skip


def test_the_last_record_of_a_key_is_the_row_of_a_table(
    local_job: LocalJobs, make_topic: Callable[..., str], state_story: StateStories, tmp_path: Path
) -> None:
    ordered, customers = make_topic(2, "orders"), make_topic(2, "customers", cleanup_policy="compact")
    job = job_of(local_job, tmp_path, "from_a_topic", ordered, customers, is_stateful=True)
    names: dict[int, str | None] = {number: f"first{number}" for number in range(CUSTOMERS)}
    changes = {number: None if number % 4 == 0 else f"second{number}" for number in range(0, CUSTOMERS, 2)}
    wanted = Counter(f"{number} {names[number % CUSTOMERS]}" for number in range(120))
    later = {**names, **changes}
    wanted.update(f"{number} {later[number % CUSTOMERS] or 'nobody'}" for number in range(120, 240))
    story = state_story(job, wanted, is_alone=True)

    def send_the_rest() -> None:
        """The table changes between the orders. What is read in a checkpoint is in the order of its timestamps."""
        produce_json(story.broker, ordered, orders(range(120)))
        job.await_records_in(CUSTOMERS + 120)
        time.sleep(0.01)
        write_table(story.broker, customers, table(changes))
        job.await_records_in(CUSTOMERS + 120 + len(changes))
        time.sleep(0.01)
        produce_json(story.broker, ordered, orders(range(120, 240)))

    write_table(story.broker, customers, table(names))
    story.is_killed_and_divided(CUSTOMERS, send_the_rest)
    story.goes_back()


def test_files_are_a_table_as_they_were_when_the_attempt_began(
    local_job: LocalJobs, make_topic: Callable[..., str], broker: str, tmp_path: Path
) -> None:
    topic = make_topic(2, "orders")
    job = job_of(local_job, tmp_path, "from_files", topic, is_stateful=False)

    def put(file: str, *numbers: int) -> None:
        (tmp_path / "customers").mkdir(exist_ok=True)
        rows = [json.dumps({"customer": f"c{number}", "name": f"n{number}"}) for number in numbers]
        (tmp_path / "customers" / file).write_text("\n".join(rows))

    def rows() -> Counter[str]:
        return Counter((value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic))

    put("a.json", 0, 1)
    produce_json(broker, topic, orders(range(3)))
    job.start()
    job.await_records_in(3)
    put("b.json", 2)
    produce_json(broker, topic, orders(range(2, 3)))
    job.await_records_in(4)
    assert job.drain() == 0, job.log()
    assert rows() == Counter({"0 n0": 1, "1 n1": 1, "2 nobody": 2})
    produce_json(broker, topic, orders(range(2, 3)))
    job.start()
    job.await_records_in(5)
    assert job.drain() == 0, job.log()
    assert rows() == Counter({"0 n0": 1, "1 n1": 1, "2 nobody": 2, "2 n2": 1})
