"""Topics and partitions of a batch's records, chosen column by column."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.errors import TopicNotFound, TransformError
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import JobSpec
from sparkapp.sink.router import Router

PARTITIONS = {"out": 4, "a": 3, "b": 5, "read": 2, "letters": 1}
SPEC = JobSpec(
    kafka=KafkaCluster(bootstrap_servers="kafka:9092"),
    source=Source(topics=("read",), group_id="g"),
    transform=Transform(sql="SELECT * FROM source"),
    sink=Sink(topic="out", transactional_id_prefix="p"),
    record_errors=RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="letters"),
)


def partitions_of(topic: str) -> int:
    if topic not in PARTITIONS:
        raise TopicNotFound(topic)
    return PARTITIONS[topic]


def router(topic_from: TopicFrom, partitioner: Partitioner, start: int = 0) -> Router:
    spec = replace(SPEC, sink=replace(SPEC.sink, topic_from=topic_from, partitioner=partitioner))
    return Router(spec, partitions_of=partitions_of, start=start)


def batch(**columns: object) -> pa.RecordBatch:
    rows = max(len(column) for column in columns.values())  # type: ignore[arg-type]
    return pa.RecordBatch.from_pydict({"value": [str(row) for row in range(rows)], **columns})


def test_the_sources_topic_and_partition_mean_nothing_unless_they_are_asked_for() -> None:
    routed = router(TopicFrom.SPEC, Partitioner.ROUND_ROBIN).route(batch(topic=["read"] * 3, partition=[9, 9, 9]))
    assert routed.schema.names == ["value", "partition"]
    assert routed.column("partition").to_pylist() == [0, 1, 2]
    routed = router(TopicFrom.COLUMN, Partitioner.KEY).route(batch(topic=["a", "b"], partition=[9, 9]))
    assert routed.schema.names == ["value", "topic"]
    assert routed.column("topic").to_pylist() == ["a", "b"]


def test_source_partitions_are_kept_modulo_each_topics_own_number() -> None:
    numbers = [0, 1, 2, 3, 4, 5, 6, 7]
    routed = router(TopicFrom.SPEC, Partitioner.SOURCE_PARTITION).route(batch(partition=numbers))
    assert routed.column("partition").to_pylist() == [number % 4 for number in numbers]
    topics = ["a", "b"] * 4
    routed = router(TopicFrom.COLUMN, Partitioner.SOURCE_PARTITION).route(batch(partition=numbers, topic=topics))
    assert routed.column("partition").to_pylist() == [
        number % PARTITIONS[topic] for number, topic in zip(numbers, topics, strict=True)
    ]
    assert routed.column("partition").type == pa.int32()


@given(st.lists(st.lists(st.sampled_from(["a", "b", "out"]), min_size=1, max_size=30), min_size=1, max_size=5))
def test_round_robin_spreads_each_topic_evenly_over_all_batches(batches: list[list[str]]) -> None:
    turns = router(TopicFrom.COLUMN, Partitioner.ROUND_ROBIN, start=2)
    written: Counter[tuple[str, int]] = Counter()
    for topics in batches:
        routed = turns.route(batch(topic=topics))
        assert routed.column("topic").to_pylist() == topics
        written.update(zip(topics, routed.column("partition").to_pylist(), strict=True))
    for topic in {each for topics in batches for each in topics}:
        counts = [written[topic, partition] for partition in range(PARTITIONS[topic])]
        assert max(counts) - min(counts) <= 1


def test_round_robin_of_another_task_begins_elsewhere() -> None:
    first, second = (
        router(TopicFrom.SPEC, Partitioner.ROUND_ROBIN, start).route(batch(key=["k"])).column("partition").to_pylist()
        for start in (1, 6)
    )
    assert (first, second) == ([1], [2])


@pytest.mark.parametrize(
    ("topics", "error", "said"),
    [
        (["a", None], TransformError, "column topic is null in 1 of 2 records"),
        (["a", "none"], TopicNotFound, "none"),
        (["a", "read"], TransformError, "which the job itself reads"),
        (["letters"], TransformError, "dead letters"),
    ],
)
def test_a_topic_that_cannot_be_meant_is_refused(topics: list[str | None], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        router(TopicFrom.COLUMN, Partitioner.KEY).route(batch(topic=topics))


@pytest.mark.parametrize("columns", [{"key": ["k"]}, {"partition": pa.array([None], pa.int32())}, {"partition": [-1]}])
def test_a_source_partition_that_is_missing_is_refused(columns: dict[str, object]) -> None:
    with pytest.raises(TransformError, match="partition"):
        router(TopicFrom.SPEC, Partitioner.SOURCE_PARTITION).route(batch(**columns))


def test_a_pattern_says_what_is_read_too() -> None:
    spec = replace(
        SPEC, source=replace(SPEC.source, topics=(), topic_pattern="a.*"),
        sink=replace(SPEC.sink, topic_from=TopicFrom.COLUMN),
    )  # fmt: skip
    with pytest.raises(TransformError, match="itself reads"):
        Router(spec, partitions_of=partitions_of).route(batch(topic=["a"]))
