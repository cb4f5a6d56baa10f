"""Windows, deduplication and timers of Spark's users through kills, other partitions of state and a way back.

One query has a session window, a window of windows, ``dropDuplicatesWithinWatermark`` and ``transformWithState`` with
value, list and map state and timers by event time. Its rows go to two topics, by column.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.sink import TopicFrom
from sparkapp.model.job.sections.transform import Transform
from tests.integration.engine.conftest import LocalJobs, StateStories
from tests.support.jobs.local_job import produce_json

pytestmark = pytest.mark.spark

_MODULE = '''
from pyspark.sql import Row, functions as f
from pyspark.sql.streaming import StatefulProcessor

PERIOD = 30_000


class Periods(StatefulProcessor):
    """Sums the ids of each period of 30 s when a timer says that it is over."""

    def init(self, handle):
        self.handle = handle
        self.sums = handle.getMapState("sums", "period LONG", "n LONG, s LONG")
        self.ids = handle.getListState("ids", "id LONG")
        self.fired = handle.getValueState("fired", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            period = row.ms // PERIOD * PERIOD
            n, s = self.sums.getValue((period,)) if self.sums.containsKey((period,)) else (0, 0)
            self.sums.updateValue((period,), (n + 1, s + row.id))
            self.ids.appendValue((row.id,))
            self.handle.registerTimer(period + PERIOD)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        end = expiredTimerInfo.getExpiryTimeInMs()
        n, s = self.sums.getValue((end - PERIOD,))
        self.sums.removeKey((end - PERIOD,))
        fired = (self.fired.get()[0] if self.fired.exists() else 0) + 1
        self.fired.update((fired,))
        listed = [each[0] for each in self.ids.get()]
        yield Row(value=f"period {key[0]} {end} {n} {s} {fired} {len(listed) >= n}")

    def close(self):
        pass


def pipelines(source):
    events = source.select("value.*").withColumn("at", f.timestamp_millis("ms")).withWatermark("at", "150 seconds")
    first = events.where("copy = 0")

    sessions = first.groupBy(f.session_window("at", "4 seconds"), "k").agg(f.count("*").alias("n"))
    sessions = sessions.select(
        f.concat_ws(" ", f.lit("session"), "k", f.unix_millis("session_window.start"), "n").alias("value")
    )
    short = first.groupBy(f.window("at", "10 seconds"), "k").agg(f.count("*").alias("n"))
    minutes = short.groupBy(f.window(f.window_time("window"), "1 minute"))
    minutes = minutes.agg(f.count("*").alias("short"), f.sum("n").alias("n"))
    minutes = minutes.select(
        f.concat_ws(" ", f.lit("minute"), f.unix_millis("window.start"), "short", "n").alias("value")
    )
    distinct = events.dropDuplicatesWithinWatermark(["id"])
    distinct = distinct.select(f.concat_ws(" ", f.lit("distinct"), "id").alias("value"))
    periods = first.groupBy("k").transformWithState(
        statefulProcessor=Periods(), outputStructType="value STRING", outputMode="Append", timeMode="EventTime"
    )
    every = sessions.unionByName(minutes).unionByName(distinct).unionByName(periods)
    return every.withColumn("topic", f.when(f.col("value").startswith("period"), "PERIODS").otherwise("OTHERS"))
'''
START, ORDERS = 1_700_000_010_000, 240
Order = dict[str, Any]


def moment(number: int) -> int:
    """Half a second apart, with gaps of 10 s, so that sessions end."""
    return START + number * 500 + number // 40 * 10_000


def orders() -> list[Order]:
    """In the order of their times; every fifth is sent twice."""
    found: list[Order] = []
    for number in range(ORDERS):
        order: Order = {"id": number, "k": f"k{number % 5}", "ms": moment(number), "copy": 0}
        found += [order, {**order, "copy": 1}] if number % 5 == 0 else [order]
    return found


LAST: Order = {"id": 9000, "k": "end", "ms": START + 3_600_000, "copy": 0}
"""Ends all that is before; what it begins itself stays open."""


def sessions(key: str, moments: list[int]) -> list[str]:
    begins = [n for n, each in enumerate(moments) if n == 0 or each - moments[n - 1] >= 4000]
    ends = [*begins[1:], len(moments)]
    return [f"session {key} {moments[begin]} {end - begin}" for begin, end in zip(begins, ends, strict=True)]


def expected() -> Counter[str]:
    by_key: dict[str, list[int]] = defaultdict(list)
    short: Counter[tuple[int, str]] = Counter()
    periods: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number in range(ORDERS):
        key, at = f"k{number % 5}", moment(number)
        by_key[key].append(at)
        short[at // 10_000 * 10_000, key] += 1
        periods[at // 30_000 * 30_000, key].append(number)
    found = Counter(row for key, moments in by_key.items() for row in sessions(key, moments))
    minutes: dict[int, list[int]] = defaultdict(list)
    for (begin, _), count in short.items():
        minutes[begin // 60_000 * 60_000].append(count)
    found.update(f"minute {begin} {len(counts)} {sum(counts)}" for begin, counts in minutes.items())
    found.update(f"distinct {number}" for number in [*range(ORDERS), LAST["id"]])
    fired: Counter[str] = Counter()
    for (begin, key), ids in sorted(periods.items()):
        fired[key] += 1
        found[f"period {key} {begin + 30_000} {len(ids)} {sum(ids)} {fired[key]} True"] += 1
    return found


def test_windows_deduplication_and_timers_continue_with_their_state(
    local_job: LocalJobs, make_topic: Callable[..., str], state_story: StateStories, tmp_path: Path
) -> None:
    periods, others = make_topic(2, "periods"), make_topic(2, "others")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "operators.py").write_text(_MODULE.replace("PERIODS", periods).replace("OTHERS", others))
    job = local_job(
        partitions=2, transform=Transform(function="operators:pipelines"), code=tmp_path / "code", stateful=True,
        max_offsets=100, value_format=Format.JSON, value_schema="id BIGINT, k STRING, ms BIGINT, copy INT",
    )  # fmt: skip
    job.spec = replace(job.spec, sink=replace(job.spec.sink, topic_from=TopicFrom.COLUMN))
    story = state_story(job, expected(), periods, others, is_alone=True)
    produce_json(story.broker, job.spec.source.topics[0], orders())
    story.is_killed_and_divided(len(orders()), lambda: produce_json(story.broker, job.spec.source.topics[0], [LAST]))
    story.goes_back()
    assert {(row or b"").split()[0] for row in story.values(periods)} == {b"period"}
    assert not any((row or b"").startswith(b"period") for row in story.values(others))
