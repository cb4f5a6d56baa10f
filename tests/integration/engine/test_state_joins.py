"""Joins of one topic with another through a kill, other partitions of state and a way back: every type of Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import Transform
from tests.integration.engine.conftest import LocalJobs, StateStories
from tests.support.jobs.local_job import produce_json

pytestmark = pytest.mark.spark

_MODULE = """
from functools import reduce
from pyspark.sql import DataFrame, functions as f

def pipelines(source):
    events = source.select("topic", "value.*").withColumn("at", f.timestamp_millis("ms"))
    events = events.withWatermark("at", "150 seconds")
    orders = events.where("topic LIKE '%.orders.%'").select("id", "at")
    payments = events.where("topic LIKE '%.payments.%'")
    payments = payments.select(f.col("id").alias("order_id"), f.col("at").alias("paid_at"))
    within = f.expr("id = order_id AND paid_at >= at AND paid_at <= at + INTERVAL 20 SECONDS")
    none = f.lit(-1)
    found = []
    for kind in KINDS:
        rows = orders.join(payments, within, kind)
        order_id = f.lit(0) if kind == "left_semi" else f.coalesce("order_id", none)
        found.append(rows.select(f.concat_ws(" ", f.lit(kind), f.coalesce("id", none), order_id).alias("value")))
    return reduce(DataFrame.unionByName, found)
"""
START, ORDERS, STRANGERS = 1_700_000_010_000, 240, 20
Event = dict[str, Any]


def orders() -> list[Event]:
    return [{"id": number, "ms": START + number * 500} for number in range(ORDERS)]


def delay(number: int) -> int:
    """Of an order's payment, in ms: within the 20 s of the join, or too late for them."""
    return 25_000 if number % 4 == 0 else number % 5 * 1000


def payments() -> list[Event]:
    """Of two thirds of the orders, and some without an order; in the order of their times."""
    paid = [{"id": n, "ms": START + n * 500 + delay(n)} for n in range(ORDERS) if n % 3]
    strangers = [{"id": 5000 + n, "ms": START + n * 5000} for n in range(STRANGERS)]
    return sorted(paid + strangers, key=lambda each: each["ms"])


LAST = {"id": 9000, "ms": START + 3_600_000}, {"id": 9001, "ms": START + 3_600_000}
"""An order and a payment that end all that is before. What they begin themselves stays open."""


def expected(kinds: tuple[str, ...]) -> Counter[str]:
    paid = {n for n in range(ORDERS) if n % 3 and delay(n) <= 20_000}
    alone = [f"{n} -1" for n in range(ORDERS) if n not in paid]
    without = [f"-1 {each['id']}" for each in payments() if each["id"] not in paid]
    pairs = [f"{n} {n}" for n in paid]
    rows = {
        "inner": pairs,
        "left_outer": pairs + alone,
        "right_outer": pairs + without,
        "full_outer": pairs + alone + without,
        "left_semi": [f"{n} 0" for n in paid],
    }
    return Counter(f"{kind} {row}" for kind in kinds for row in rows[kind])


@pytest.mark.parametrize("kinds", [("left_outer", "full_outer"), ("inner", "right_outer", "left_semi")])
def test_joins_continue_with_their_state(
    local_job: LocalJobs,
    make_topic: Callable[..., str],
    state_story: StateStories,
    tmp_path: Path,
    kinds: tuple[str, ...],
) -> None:
    topics = make_topic(2, "orders"), make_topic(2, "payments")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "joins.py").write_text(_MODULE.replace("KINDS", repr(kinds)))
    job = local_job(
        partitions=2, topics=topics, transform=Transform(function="joins:pipelines"), code=tmp_path / "code",
        stateful=True, max_offsets=120, value_format=Format.JSON, value_schema="id BIGINT, ms BIGINT",
    )  # fmt: skip
    story = state_story(job, expected(kinds))

    def send(events: tuple[list[Event], ...]) -> None:
        for topic, rows in zip(topics, events, strict=True):
            produce_json(story.broker, topic, rows)

    send((orders(), payments()))
    story.is_killed_and_divided(len(orders()) + len(payments()), lambda: send(([LAST[0]], [LAST[1]])))
    story.goes_back()
