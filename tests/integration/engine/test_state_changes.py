"""Other types of state in a new revision: the job continues with them, or stops before it has changed anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import OutputMode, Transform
from sparkapp.model.report import Termination
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob, produce_json, settings_of_a_cluster
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_SUM = "SELECT concat_ws(' ', k, AGGREGATES) AS value FROM (SELECT value.* FROM source) GROUP BY k"
_MODULE = """
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Totals(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("total", "SCHEMA")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            old = self.total.get() if self.total.exists() else EMPTY
            self.total.update(NEXT)
            yield Row(value=" ".join(map(str, (key[0], *self.total.get()))))

    def close(self):
        pass


def totals(source):
    return source.select("value.*").groupBy("k").transformWithState(
        statefulProcessor=Totals(), outputStructType="value STRING", outputMode="Update", timeMode="None"
    )
"""


@dataclass(frozen=True)
class State:
    """A type of the state of ``transformWithState``, and how it follows from a record."""

    schema: str
    empty: str
    next: str


BEFORE = State("n LONG", "(0,)", "(old[0] + 1,)")
WIDER = State("n LONG, s LONG", "(0, None)", "(old[0] + 1, (old[1] or 0) + row.id)")
OTHER = State("n STRING", "('',)", "(old[0] + 'x',)")


@dataclass(frozen=True)
class Revisions:
    """A job whose code a test replaces; its records are numbers, all with the key ``a``."""

    job: LocalJob
    broker: str
    file: Path

    def takes(self, state: State) -> None:
        text = _MODULE.replace("SCHEMA", state.schema).replace("EMPTY", state.empty).replace("NEXT", state.next)
        self.file.write_text(text)

    def runs(self, number: int, **how: Any) -> None:
        """One attempt, which reads another record of that number."""
        before = self.job.document()
        produce_json(self.broker, self.job.spec.source.topics[0], [{"id": number, "k": "a"}])
        self.job.start(alone=True, **how)
        self.job.await_records_in(1 + (0 if before is None else before.counters.records_in))
        assert self.job.drain() == 0, self.job.log()

    def is_refused(self, number: int) -> Termination:
        """The attempt ends, and neither document nor output nor state has changed."""
        document, rows = self.job.document(), self.rows()
        produce_json(self.broker, self.job.spec.source.topics[0], [{"id": number, "k": "a"}])
        self.job.start(alone=True)
        assert self.job.await_end() == 1, self.job.log()
        after = self.job.document()
        assert document is not None
        assert after is not None
        assert (after.checkpoint_id, after.offsets, after.engine) == (
            document.checkpoint_id, document.offsets, document.engine
        )  # fmt: skip
        assert self.rows() == rows
        termination = self.job.termination()
        assert termination is not None
        return termination

    def rows(self) -> list[str]:
        return sorted((value or b"").decode() for value in visibility.records(self.broker, self.job.spec.sink.topic))


Made = Callable[..., Revisions]


@pytest.fixture
def revisions(local_job: LocalJobs, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """``revisions(transform, **settings of Spark)``."""

    def make(transform: Transform, **settings: str) -> Revisions:
        (tmp_path / "code").mkdir()
        for name, value in settings_of_a_cluster(tmp_path, master="local[2]", **settings).items():
            monkeypatch.setenv(name, value)
        job = local_job(
            partitions=1, parallelism=1, transform=transform, code=tmp_path / "code", stateful=True,
            value_format=Format.JSON, value_schema="id BIGINT, k STRING",
        )  # fmt: skip
        return Revisions(job, broker, tmp_path / "code" / "totals.py")

    return make


def of(sql: str) -> Transform:
    return Transform(sql=_SUM.replace("AGGREGATES", sql), output_mode=OutputMode.UPDATE)


PYTHON = Transform(function="totals:totals", output_mode=OutputMode.UPDATE)


def test_another_aggregate_is_refused_and_the_previous_code_continues(revisions: Made) -> None:
    made = revisions(of("count(*)"))
    made.runs(5)
    assert "the aggregation by k keeps each key for ever: " in made.job.log(1000)
    made.job.spec = replace(made.job.spec, transform=of("count(*), sum(id)"))
    termination = made.is_refused(6)
    assert (termination.reason, termination.fatal) == ("QueryStateIncompatible", True)
    made.job.spec = replace(made.job.spec, transform=of("count(*)"))
    made.runs(7)
    assert made.rows() == ["a 1", "a 3"]


def test_another_field_of_a_state_variable_is_refused_in_the_default_encoding(revisions: Made) -> None:
    made = revisions(PYTHON)
    made.takes(BEFORE)
    made.runs(5)
    made.takes(WIDER)
    termination = made.is_refused(6)
    assert (termination.reason, termination.fatal) == ("QueryStateIncompatible", True)
    assert "encodingFormat" in termination.remedy
    made.takes(BEFORE)
    made.runs(7)
    assert made.rows() == ["a 1", "a 2", "a 3"]


def test_another_field_of_a_state_variable_in_avro_continues(revisions: Made) -> None:
    made = revisions(PYTHON, **{ENCODING: "avro"})
    made.takes(BEFORE)
    made.runs(5)
    made.takes(WIDER)
    made.runs(6)
    assert made.rows() == ["a 1", "a 2 6"]
    made.takes(OTHER)
    termination = made.is_refused(7)
    assert (termination.reason, termination.fatal) == ("QueryStateIncompatible", True)
    made.takes(WIDER)
    made.runs(8)
    assert made.rows() == ["a 1", "a 2 6", "a 3 13", "a 4 21"]
