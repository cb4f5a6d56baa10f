"""Topics from a column and partitioners, on a real broker, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from sparkapp.clients.topics.sink_topics import SinkTopics
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
from sparkapp.model.errors import TopicNotFound, TransformError
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import JobSpec
from sparkapp.sink.router import Router
from tests.support.jobs.sink_harness import Harness
from tests.support.kafka import visibility
from tests.support.kafka.topic_scope import TopicScope

pytestmark = pytest.mark.broker


@pytest.fixture
def routed(harness: Callable[..., Harness], topic_scope: TopicScope) -> Callable[..., Harness]:
    """``routed(topic_from=…, partitioner=…)``: an attempt whose writer has a router."""

    def make(**options: object) -> Harness:
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=topic_scope.bootstrap),
            source=Source(topics=("read",), group_id="g"),
            transform=Transform(sql="SELECT * FROM source"),
            sink=replace(Sink(topic=topic_scope.topic, transactional_id_prefix=topic_scope.prefix), **options),
        )
        topics = SinkTopics({"bootstrap.servers": topic_scope.bootstrap})
        return harness(router=Router(spec, partitions_of=topics.partitions))

    return make


def rows(topics: list[str | None], **columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": [str(row) for row in range(len(topics))], "topic": topics, **columns})


def test_topics_of_a_column_are_in_one_transaction(routed, topic_scope, make_topic):
    each, two = make_topic(name="one"), make_topic(partitions=2, name="two")
    attempt = routed(topic_from=TopicFrom.COLUMN).open()
    attempt.write_batch(rows([each, two, each, two, two]))
    state = attempt.snapshot(1)
    (committable,) = state.pending
    written = topic_scope.client.describe([committable.transactional_id])[committable.transactional_id].partitions
    assert {place.topic for place in written} == {each, two}
    assert visibility.numbers(topic_scope.bootstrap, each) == visibility.numbers(topic_scope.bootstrap, two) == []
    attempt.kill()
    again = routed(topic_from=TopicFrom.COLUMN).restore(state)
    assert [each.outcome for each in again.settled] == [CommitOutcome.COMMITTED]
    topic_scope.await_ended()
    assert visibility.numbers(topic_scope.bootstrap, each) == [0, 2]
    assert sorted(visibility.numbers(topic_scope.bootstrap, two)) == [1, 3, 4]
    assert topic_scope.numbers() == []


@pytest.mark.parametrize(("wrong", "error"), [("none", TopicNotFound), (None, TransformError)])
def test_a_wrong_topic_loses_nothing(routed, topic_scope, make_topic, wrong, error):
    """The checkpoint fails as a whole; after the cause is repaired the same range is written once."""
    each = make_topic(name="one")
    missing = wrong and f"{topic_scope.prefix}.{wrong}"
    attempt = routed(topic_from=TopicFrom.COLUMN).open()
    attempt.write_batch(rows([each, each]))
    with pytest.raises(error) as caught:
        attempt.write_batch(rows([each, missing]))
    assert "topic" in caught.value.remedy
    attempt.kill()
    if missing:
        with pytest.raises(TopicNotFound):  # nor has anybody created it by guess
            SinkTopics({"bootstrap.servers": topic_scope.bootstrap}).partitions(missing)
    again = routed(topic_from=TopicFrom.COLUMN).open()
    again.write_batch(rows([each, each, each]))
    again.snapshot(1)
    again.notify(1)
    topic_scope.await_ended()
    assert visibility.numbers(topic_scope.bootstrap, each) == [0, 1, 2]
    assert topic_scope.open_transactions() == []


def test_round_robin_fills_the_partitions_evenly(routed, topic_scope, make_topic):
    topic = make_topic(partitions=4, name="wide")
    attempt = routed(topic_from=TopicFrom.COLUMN, partitioner=Partitioner.ROUND_ROBIN).open()
    for _ in range(3):
        attempt.write_batch(rows([topic] * 6, key=["the same"] * 6))
    attempt.snapshot(1)
    attempt.notify(1)
    topic_scope.await_ended()
    found = [message.partition() for message in visibility.messages(topic_scope.bootstrap, topic)]
    assert sorted(found.count(partition) for partition in range(4)) == [4, 4, 5, 5]


def test_source_partitions_stay_together(routed, topic_scope, make_topic):
    topic = make_topic(partitions=3, name="narrow")
    numbers = [0, 1, 2, 3, 4, 5, 0, 5]
    attempt = routed(topic_from=TopicFrom.COLUMN, partitioner=Partitioner.SOURCE_PARTITION).open()
    attempt.write_batch(rows([topic] * 8, partition=pa.array(numbers, pa.int32()), key=["the same"] * 8))
    attempt.snapshot(1)
    attempt.notify(1)
    topic_scope.await_ended()
    found = visibility.messages(topic_scope.bootstrap, topic)
    assert {int(each.value()): each.partition() for each in found} == {
        row: number % 3 for row, number in enumerate(numbers)
    }


def test_a_topic_is_looked_for_again_when_it_is_young(topic_scope, make_topic):
    topics = SinkTopics({"bootstrap.servers": topic_scope.bootstrap})
    assert topics.partitions(topic_scope.topic) == 1
    assert topics.partitions(make_topic(partitions=3, name="young")) == 3
    with pytest.raises(TopicNotFound, match="does not exist or may not be described"):
        topics.partitions(f"{topic_scope.prefix}.none")
    assert f"{topic_scope.prefix}.none" not in topics._known
