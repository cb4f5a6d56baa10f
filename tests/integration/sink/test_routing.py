"""Topics from a column and partitioners, on a real broker, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from sparkapp.model.errors import TopicNotFound, TransformError
from sparkapp.model.job import JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.sink_routing import Partitioner, TopicFrom
from sparkapp.sink.committer import Outcome
from sparkapp.sink.router import Router
from sparkapp.sink.sink_topics import SinkTopics
from tests.support import visibility
from tests.support.harness import Harness
from tests.support.site import Site

pytestmark = pytest.mark.broker


@pytest.fixture
def routed(harness: Callable[..., Harness], site: Site) -> Callable[..., Harness]:
    """``routed(topic_from=…, partitioner=…)``: a life whose writer has a router."""

    def make(**options: object) -> Harness:
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=site.bootstrap),
            source=Source(topics=("read",), group_id="g"),
            transform=Transform(sql="SELECT * FROM source"),
            sink=replace(Sink(topic=site.topic, transactional_id_prefix=site.prefix), **options),
        )
        topics = SinkTopics({"bootstrap.servers": site.bootstrap})
        return harness(router=Router(spec, partitions_of=topics.partitions))

    return make


def rows(topics: list[str | None], **columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": [str(row) for row in range(len(topics))], "topic": topics, **columns})


def test_topics_of_a_column_are_in_one_transaction(routed, site, make_topic):
    one, two = make_topic(name="one"), make_topic(partitions=2, name="two")
    life = routed(topic_from=TopicFrom.COLUMN).open()
    life.write_batch(rows([one, two, one, two, two]))
    state = life.snapshot(1)
    (committable,) = state.pending
    written = site.client.describe([committable.transactional_id])[committable.transactional_id].partitions
    assert {place.topic for place in written} == {one, two}
    assert visibility.numbers(site.bootstrap, one) == visibility.numbers(site.bootstrap, two) == []
    life.kill()
    again = routed(topic_from=TopicFrom.COLUMN).restore(state)
    assert [one.outcome for one in again.settled] == [Outcome.COMMITTED]
    site.await_ended()
    assert visibility.numbers(site.bootstrap, one) == [0, 2]
    assert sorted(visibility.numbers(site.bootstrap, two)) == [1, 3, 4]
    assert site.numbers() == []


@pytest.mark.parametrize(("wrong", "error"), [("none", TopicNotFound), (None, TransformError)])
def test_a_wrong_topic_loses_nothing(routed, site, make_topic, wrong, error):
    """The checkpoint fails as a whole; with the cause mended the same range is written once."""
    one = make_topic(name="one")
    missing = wrong and f"{site.prefix}.{wrong}"
    life = routed(topic_from=TopicFrom.COLUMN).open()
    life.write_batch(rows([one, one]))
    with pytest.raises(error) as caught:
        life.write_batch(rows([one, missing]))
    assert "topic" in caught.value.remedy
    life.kill()
    if missing:
        with pytest.raises(TopicNotFound):  # nor has anybody created it by guess
            SinkTopics({"bootstrap.servers": site.bootstrap}).partitions(missing)
    again = routed(topic_from=TopicFrom.COLUMN).open()
    again.write_batch(rows([one, one, one]))
    again.snapshot(1)
    again.notify(1)
    site.await_ended()
    assert visibility.numbers(site.bootstrap, one) == [0, 1, 2]
    assert site.open_transactions() == []


def test_round_robin_fills_the_partitions_evenly(routed, site, make_topic):
    topic = make_topic(partitions=4, name="wide")
    life = routed(topic_from=TopicFrom.COLUMN, partitioner=Partitioner.ROUND_ROBIN).open()
    for _ in range(3):
        life.write_batch(rows([topic] * 6, key=["the same"] * 6))
    life.snapshot(1)
    life.notify(1)
    site.await_ended()
    found = [message.partition() for message in visibility.messages(site.bootstrap, topic)]
    assert sorted(found.count(partition) for partition in range(4)) == [4, 4, 5, 5]


def test_source_partitions_stay_together(routed, site, make_topic):
    topic = make_topic(partitions=3, name="narrow")
    numbers = [0, 1, 2, 3, 4, 5, 0, 5]
    life = routed(topic_from=TopicFrom.COLUMN, partitioner=Partitioner.SOURCE_PARTITION).open()
    life.write_batch(rows([topic] * 8, partition=pa.array(numbers, pa.int32()), key=["the same"] * 8))
    life.snapshot(1)
    life.notify(1)
    site.await_ended()
    found = visibility.messages(site.bootstrap, topic)
    assert {int(one.value()): one.partition() for one in found} == {
        row: number % 3 for row, number in enumerate(numbers)
    }


def test_a_topic_is_looked_for_again_when_it_is_young(site, make_topic):
    topics = SinkTopics({"bootstrap.servers": site.bootstrap})
    assert topics.partitions(site.topic) == 1
    assert topics.partitions(make_topic(partitions=3, name="young")) == 3
    with pytest.raises(TopicNotFound, match="create the topic"):
        topics.partitions(f"{site.prefix}.none")
    assert f"{site.prefix}.none" not in topics._known
