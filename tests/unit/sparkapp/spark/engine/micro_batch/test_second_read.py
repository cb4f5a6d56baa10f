"""The second read of a checkpoint: which task reads what, and what both reads must agree on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import TransactionError, TransformError
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.micro_batch import second_read
from sparkapp.spark.engine.micro_batch.second_read import SecondRead, divided
from tests.support.jobs.plain_job import plain_spec

COLUMNS = frozenset({"topic", "partition", "offset", "_json_value", "_json_value.1"})
"""What the plan of the letters uses of the source."""


def split(partition: int) -> KafkaPartitionSplit:
    return KafkaPartitionSplit(TopicPartition("in", partition), 0, 9)


def test_tasks_have_the_splits_of_subtasks_in_their_order_or_share_all() -> None:
    groups = [(split(0), split(3)), (split(1),), (split(2),)]
    whole = [split(3), split(2), split(1), split(0), KafkaPartitionSplit(TopicPartition("in", 4), 9, 9)]
    assert divided(groups, whole, 3) == groups
    assert divided(groups, whole, 5) == [*groups, (), ()]
    assert divided(groups, whole, 2) == [(split(0), split(2)), (split(1), split(3))]


def test_a_task_has_no_two_pieces_of_a_partition() -> None:
    pieces = [KafkaPartitionSplit(TopicPartition("in", 0), *ends) for ends in ((0, 5), (5, 9))]
    assert divided([(piece,) for piece in pieces], [split(0)], 2) == [(pieces[0],), (pieces[1],)]
    assert divided([(piece,) for piece in pieces], [split(0)], 1) == [(split(0),)]


class Rig:
    """A batch whose reads have judged their records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, value_format: Format = Format.AVRO) -> None:
        self.by_transform: list[dict[str, Any]] = []
        self.by_letters: dict[str, Any] = {}
        source = Source(
            topics=("a", "b"), group_id="g", value_format=value_format,
            value_schema="n INT" if value_format is Format.JSON else "",
            schema_registry=RegistryAccess(url="http://registry") if value_format is Format.AVRO else None,
        )  # fmt: skip
        errors = RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dead")
        spec = plain_spec(source=source, record_errors=errors)
        planner: Any = SimpleNamespace(
            splits=(split(0),), assigned=lambda splits: SimpleNamespace(by_subtask={0: splits} if splits else {})
        )
        self.planner, fake = planner, planner
        job = Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)
        monkeypatch.setattr(second_read, "observed_by_each", lambda *_: self.by_transform)
        monkeypatch.setattr(second_read, "observed_of", lambda *_: self.by_letters)
        self.columns: list[Any] = []
        monkeypatch.setattr(second_read, "table_of", lambda *given: self.columns.append(given[-1]))
        monkeypatch.setattr(second_read, "letters_of", lambda *_: "letters")
        monkeypatch.setattr(second_read, "with_letters", lambda *given: given)
        self.read = SecondRead(job, spark=fake, planner=planner, query_name="q")
        self.read.columns = COLUMNS
        self.frame: Any = SimpleNamespace(sparkSession=None, schema=None)

    def begin(self) -> object:
        return self.read.added(self.frame, 2)

    def judge(self) -> None:
        self.read.require_agreement()


def counts(parsed: int, bad: int, places: int | None) -> dict[str, Any]:
    """Over two topics."""
    example = {"topic": "a", "partition": 0, "offset": 1, "error": "bad"} if bad else None
    return {
        "parsed0": parsed,
        "bad0": 0,
        "example0": None,
        "parsed1": 0,
        "bad1": bad,
        "example1": example,
        "places": places,
    }


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_reads_that_agree(rig: Rig) -> None:
    rig.by_transform = [counts(0, 0, None)] * 2
    assert rig.begin() == (rig.frame, "letters")
    assert rig.columns == [COLUMNS]
    rig.by_transform, rig.by_letters = [counts(7, 3, -55)] * 2, counts(7, 3, -55)
    rig.judge()


@pytest.mark.parametrize("found", [counts(8, 2, -50), counts(6, 4, -57), counts(7, 3, -56), counts(14, 6, -110)])
def test_a_record_that_only_one_read_can_parse_fails_the_checkpoint(rig: Rig, found: dict[str, Any]) -> None:
    """The third: as many records, and not the same."""
    rig.by_transform = [counts(0, 0, None)] * 2
    rig.begin()
    rig.by_transform, rig.by_letters = [counts(7, 3, -55), found], counts(7, 3, -55)
    with pytest.raises(TransactionError, match="schema registry") as caught:
        rig.judge()
    assert not caught.value.fatal


def test_a_transform_that_stops_early_is_refused_as_without_a_shuffle(rig: Rig) -> None:
    rig.by_transform = [counts(0, 0, None)]
    rig.begin()
    rig.by_transform, rig.by_letters = [counts(3, 1, 9)], counts(7, 3, -55)
    with pytest.raises(TransformError, match="stopped before the end of its input"):
        rig.judge()


def test_a_second_try_counts_what_it_has_read_itself(rig: Rig) -> None:
    rig.by_transform = [counts(4, 2, 20)]
    rig.begin()
    rig.by_transform, rig.by_letters = [counts(11, 5, -35)], counts(7, 3, -55)
    rig.judge()


def test_text_has_one_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, value_format=Format.JSON)
    rig.begin()
    rig.by_transform, rig.by_letters = [counts(14, 6, -110)], counts(7, 3, -55)
    rig.judge()


def test_nothing_is_read_without_records_or_need(rig: Rig) -> None:
    rig.planner.splits = ()
    assert rig.begin() is rig.frame
    rig.judge()
    rig.planner.splits = (split(0),)
    rig.read.columns = None
    assert rig.begin() is rig.frame
    assert rig.columns == []
