"""Timers and times to live by processing time, and an initial state, through kills, other partitions and a way back.

What is written does not depend on the moments at which timers expire: a key's timer is set by its last record.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import Transform
from tests.integration.engine.conftest import LocalJobs, StateStories
from tests.support.jobs.local_job import produce_json

pytestmark = pytest.mark.spark

_MODULE = '''
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

LIVES, WAITS = 1500, 4000


class Alarms(StatefulProcessor):
    """Sums the ids of a key until its last record, and writes them some seconds later."""

    def init(self, handle):
        self.handle = handle
        self.limit = handle.getValueState("limit", "n LONG")
        self.total = handle.getValueState("total", "n LONG, s LONG")
        self.recent = handle.getMapState("recent", "id LONG", "ms LONG", ttlDurationMs=LIVES)
        self.last = handle.getListState("last", "id LONG", ttlDurationMs=LIVES)
        self.brief = handle.getValueState("brief", "n LONG", ttlDurationMs=LIVES)

    def handleInitialState(self, key, initialState, timerValues):
        self.limit.update((initialState.n,))

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            if row.id < 0:
                self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + WAITS)
                continue
            n, s = self.total.get() if self.total.exists() else (0, 0)
            self.total.update((n + 1, s + row.id))
            self.recent.updateValue((row.id,), (row.id,))
            self.last.appendValue((row.id,))
            self.brief.update((row.id,))
            there = self.recent.containsKey((row.id,)) and self.brief.get() == (row.id,)
            yield Row(value=f"seen {key[0]} {row.id} {there}")

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        n, s = self.total.get()
        limit = self.limit.get()[0] if self.limit.exists() else -1
        left = [*self.recent.keys(), *self.last.get()] + ([0] if self.brief.exists() else [])
        self.total.clear()
        yield Row(value=f"alarm {key[0]} {n} {s} {limit} {len(left)}")

    def close(self):
        pass


def alarms(source):
    table = source.sparkSession.createDataFrame([(f"k{n}", n * 100) for n in range(3)], "k STRING, n LONG")
    return source.select("value.*").groupBy("k").transformWithState(
        statefulProcessor=Alarms(), outputStructType="value STRING", outputMode="Append", timeMode="ProcessingTime",
        initialState=table.groupBy("k"),
    )
'''
KEYS, RECORDS = 5, 120
Event = dict[str, Any]


def events() -> list[Event]:
    return [{"id": number, "k": f"k{number % KEYS}"} for number in range(RECORDS)]


def closing() -> list[Event]:
    """Each key's timer expires seconds later, without another record."""
    return [{"id": -1 - number, "k": f"k{number}"} for number in range(KEYS)]


def expected() -> Counter[str]:
    by_key: dict[str, list[int]] = defaultdict(list)
    for event in events():
        by_key[event["k"]].append(event["id"])
    limits = {f"k{number}": number * 100 for number in range(3)}
    found = Counter(f"seen {event['k']} {event['id']} True" for event in events())
    found.update(f"alarm {key} {len(ids)} {sum(ids)} {limits.get(key, -1)} 0" for key, ids in by_key.items())
    return found


def test_timers_by_processing_time_expire_once_and_without_records(
    local_job: LocalJobs, state_story: StateStories, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "timers.py").write_text(_MODULE)
    job = local_job(
        partitions=2, transform=Transform(function="timers:alarms"), code=tmp_path / "code", stateful=True,
        max_offsets=40, value_format=Format.JSON, value_schema="id BIGINT, k STRING",
    )  # fmt: skip
    story = state_story(job, expected(), is_alone=True)
    topic = job.spec.source.topics[0]
    produce_json(story.broker, topic, events())
    story.is_killed_and_divided(RECORDS, lambda: produce_json(story.broker, topic, closing()))
    document = job.document()
    assert document is not None
    assert not any(split.size for split in document.splits), "the last checkpoints have no records"
    story.goes_back()
