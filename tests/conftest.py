"""Fixtures of every test: one real broker a run, shared, with names of its own for each test."""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.pairs import covering
from tests.thorough import is_thorough

if TYPE_CHECKING:
    from sparkapp.clients.transactions.client import TransactionClient
    from tests.support.jobs.sink_harness import Harness
    from tests.support.kafka.late_requests import LateRequests
    from tests.support.kafka.topic_scope import TopicScope

# The same examples in every run: a failure of the pipeline can be repeated anywhere.
settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The long form of tests with tables, and the stories' engine."""
    parser.addoption(
        "--matrix", action="store_true",
        help="every cell of tests/integration/faults/matrix.py, and every combination of tests with the mark 'pairs'",
    )  # fmt: skip
    parser.addoption("--engine", default="MicroBatch", help="of the stories in tests/integration/protocol")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever uses the broker carries its mark, so that ``-m 'not broker'`` runs anywhere; so do thorough tests.

    Then the short form.
    """
    for item in items:
        if "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.broker)
        if is_thorough(item.nodeid):
            item.add_marker(pytest.mark.thorough)
    if not config.getoption("--matrix"):
        left_out = set(_without_pairs_of_their_own(items))
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _without_pairs_of_their_own(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    tables: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("pairs"):
            tables[item.nodeid.partition("[")[0]].append(item)
    for table in tables.values():
        chosen = covering([{name: repr(value) for name, value in item.callspec.params.items()} for item in table])
        yield from (item for number, item in enumerate(table) if number not in chosen)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of a real broker: that of ``KAFKASPARK_BOOTSTRAP``, or a temporary broker."""
    given = os.environ.get("KAFKASPARK_BOOTSTRAP")
    if given:
        yield given
        return
    from localcluster.kafka.broker import Broker
    from tests.support.kafka.idempotent_producer import idempotent_producer

    with Broker.ephemeral(
        tmp_path_factory.mktemp("broker"),
        overrides={
            # Transactions that time out are looked for every 10 s by default.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            # Otherwise a check every 5 minutes deletes the records to which a test gave an old timestamp.
            "log.retention.ms": "-1",
        },
    ) as running:
        yield running.bootstrap
        idempotent_producer.cache_clear()


@pytest.fixture
def way(broker: str) -> Iterator[LateRequests]:
    """A proxy to the broker that withholds single requests."""
    from tests.support.kafka.late_requests import LateRequests

    opened = LateRequests(broker)
    yield opened
    opened.close()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for topics, groups and transactional id prefixes on the shared broker."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60]
    return f"{name}.{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make_topic(broker: str, unique: str) -> Callable[..., str]:
    """``make_topic(partitions=1, name="out", **config) -> topic``; each call makes a topic of this test's own."""
    from confluent_kafka.admin import NewTopic

    from tests.support.kafka.topics import create_topics

    def make(partitions: int = 1, name: str = "out", **config: str) -> str:
        topic = f"{unique}.{name}.{uuid.uuid4().hex[:4]}"
        settings_of_it = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings_of_it)
        create_topics(broker, new)
        return topic

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """One topic of one partition."""
    return make_topic()


@pytest.fixture
def client(broker: str) -> Iterator[TransactionClient]:
    """The transactions' control plane, as the driver has it."""
    from sparkapp.clients.transactions.client import TransactionClient

    opened = TransactionClient({"bootstrap.servers": broker})
    yield opened
    opened.close()


@pytest.fixture
def topic_scope(broker: str, topic: str, unique: str, client: TransactionClient) -> TopicScope:
    """This test's topic, prefix and control plane, with the questions that tests of transactions end with."""
    from tests.support.kafka.topic_scope import TopicScope

    return TopicScope(broker, topic, unique, client)


@pytest.fixture
def harness(broker: str, topic: str, unique: str) -> Iterator[Callable[..., Harness]]:
    """``harness(subtask=0, parallelism=1, **fields)`` on this test's topic and prefix; clients end with the test."""
    from tests.support.jobs.sink_harness import Harness

    made: list[Harness] = []

    def make(subtask: int = 0, parallelism: int = 1, **fields: Any) -> Harness:
        values = {"bootstrap": broker, "topic": topic, "prefix": unique, **fields}
        made.append(Harness(subtask=subtask, parallelism=parallelism, **values))
        return made[-1]

    yield make
    for harness in made:
        harness.kill()
