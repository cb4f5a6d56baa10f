"""What the driver makes of librdkafka's answers; the fault matrix has them from brokers that die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, Uuid

from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.leaders import KnownLeaders
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable, LeaderUnavailable
from sparkapp.model.partition import TopicPartition

PARTITION = TopicPartition("in", 0)


@pytest.fixture
def view() -> Iterator[KafkaClusterView]:
    made = KafkaClusterView({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, read_committed=True, timeout=0.5)
    yield made
    made.close()


class Admin:
    """Answers with these offsets, one after the other; the last one for ever.

    :param failure: of the first request.
    :param leaders: of :data:`PARTITION` in each metadata answer, one after the other; the last one for ever.
    """

    def __init__(
        self, offsets: Sequence[int], *, failure: KafkaError | None = None, leaders: Sequence[int] = (1,)
    ) -> None:
        self.failure = failure
        self.fails_for_ever = False
        self.offsets = list(offsets)
        self.leaders = list(leaders)
        self.asked: list[str] = []
        self.levels: list[IsolationLevel] = []

    @property
    def client(self) -> Admin:
        return self

    def metadata(self, topic: str | None = None, *, timeout: float) -> SimpleNamespace:
        self.asked.append("metadata")
        leader = self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]
        described = SimpleNamespace(error=None, partitions={PARTITION.partition: SimpleNamespace(leader=leader)})
        return SimpleNamespace(cluster_id="c", brokers={1: "broker"}, topics={PARTITION.topic: described})

    def list_offsets(
        self, wanted: dict[Any, Any], *, isolation_level: IsolationLevel, **_: Any
    ) -> dict[Any, Future[Any]]:
        self.asked.append("offsets")
        self.levels.append(isolation_level)
        failure, self.failure = self.failure, self.failure if self.fails_for_ever else None
        if failure is not None:
            raise KafkaException(failure)
        offset = self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0]
        answers = {}
        for each in wanted:
            answers[each] = Future[Any]()
            answers[each].set_result(SimpleNamespace(offset=offset, timestamp=-1))
        return answers

    def poll(self) -> None:
        """Nothing to report."""


class Brokers(Admin):
    """Each broker answers by itself; clients of one broker are counted in ``asked``.

    :param offset: of the view's own client, which asks a replaced leader.
    :param confirmed: of each client of one broker.
    :param views: which leader each broker names, a round; the last round for ever. None for a broker without an answer.
    """

    def __init__(self, offset: int, confirmed: int, *views: Sequence[int | None]) -> None:
        super().__init__([offset])
        self._each = Admin([confirmed])
        self._each.asked = self.asked
        self._views = list(views)

    def each(self, *, timeout: float) -> Iterator[tuple[Admin, SimpleNamespace]]:
        for leader in self._views.pop(0) if len(self._views) > 1 else self._views[0]:
            self.asked.append("a broker")
            if leader is None:
                raise KafkaException(KafkaError(KafkaError._TRANSPORT, "broker 2 at there:1: no answer"))
            described = SimpleNamespace(error=None, partitions={PARTITION.partition: SimpleNamespace(leader=leader)})
            brokers = {number: "broker" for number in (1, 2, 3)}
            yield self._each, SimpleNamespace(brokers=brokers, topics={PARTITION.topic: described})


def answered_by(view: KafkaClusterView, admin: Admin) -> Admin:
    view._admin = admin  # type: ignore[assignment]
    view._leaders = KnownLeaders(admin, {})  # type: ignore[arg-type]
    return admin


def test_a_leader_that_died_before_it_answered_is_asked_again(view: KafkaClusterView) -> None:
    """Taken for an offset, it would be one that went back: the topic recreated, and the job stopped for good."""
    admin = answered_by(view, Admin([OFFSET_INVALID, 21]))
    assert view.latest([PARTITION]) == {PARTITION: 21}
    assert admin.asked == ["metadata", "offsets"] * 2, "librdkafka would ask the same leader again"


def test_what_is_read_ends_before_open_transactions_and_places_in_the_log_do_not(view: KafkaClusterView) -> None:
    admin = answered_by(view, Admin([21]))
    view.latest([PARTITION])
    assert admin.levels == [IsolationLevel.READ_COMMITTED]
    view.log_ends([PARTITION])
    assert view.records_at({PARTITION: 1000}) == {PARTITION: (21, -1)}
    assert admin.levels[1:] == [IsolationLevel.READ_UNCOMMITTED] * 2


def test_a_time_out_has_no_cause_of_an_earlier_day(view: KafkaClusterView, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka tells what happened since the last question only when it is asked for it."""
    admin = answered_by(view, Admin([21]))
    heard = [KafkaError(KafkaError._AUTHENTICATION, "a broker that restarted")]
    monkeypatch.setattr(admin, "poll", lambda: view._errors.extend(heard) or heard.clear())
    admin.failure, admin.fails_for_ever = KafkaError(KafkaError._TIMED_OUT), True
    with pytest.raises(KafkaUnreachable):
        view.latest([PARTITION])


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TIMED_OUT, KafkaError.FENCED_LEADER_EPOCH, KafkaError._NOENT, KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR, KafkaError.REPLICA_NOT_AVAILABLE,
    ],
)  # fmt: skip
def test_a_leader_that_died_or_moved_is_looked_for(view: KafkaClusterView, code: int) -> None:
    admin = answered_by(view, Admin([21], failure=KafkaError(code)))
    assert view.latest([PARTITION]) == {PARTITION: 21}
    assert admin.asked == ["metadata", "offsets"] * 2


def test_C10_a_leader_that_does_not_know_its_end_for_long_is_named(view: KafkaClusterView) -> None:
    """After an election, until its followers have reported how far they are; without followers in sync, for ever."""
    admin = Admin([21], failure=KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
    admin.fails_for_ever = True
    answered_by(view, admin)
    with pytest.raises(LeaderUnavailable, match="OFFSET_NOT_AVAILABLE") as caught:
        view.latest([PARTITION])
    assert "--under-min-isr-partitions" in caught.value.remedy
    assert admin.asked.count("offsets") > 1


def test_a_leader_that_never_answers_is_no_offset(view: KafkaClusterView) -> None:
    answered_by(view, Admin([OFFSET_INVALID]))
    with pytest.raises(KafkaAccessError, match="in-0 has no answer"):
        view.latest([PARTITION])


def test_no_offset_is_asked_for_before_a_leader_is_known(view: KafkaClusterView) -> None:
    """librdkafka frees the operation twice where its cache changes while it looks for a leader that it lacks."""
    admin = answered_by(view, Admin([21], leaders=[-1, 7, 1]))
    assert view.latest([PARTITION]) == {PARTITION: 21}
    assert admin.asked == ["metadata"] * 3 + ["offsets"]
    assert view.latest([PARTITION]) == {PARTITION: 21}
    assert admin.asked[4:] == ["offsets"], "the leader is known"
    with pytest.raises(KafkaAccessError, match="in-9 has no leader"):
        view.latest([PARTITION, TopicPartition("in", 9)])
    assert "offsets" not in admin.asked[5:]


def test_a_listing_of_topics_has_the_leaders(view: KafkaClusterView) -> None:
    admin = answered_by(view, Admin([21]))
    assert view.topics() == {"in": 1}
    assert view.earliest([PARTITION]) == {PARTITION: 21}
    assert admin.asked == ["metadata", "offsets"]


def test_a_leader_is_looked_for_again_before_librdkafka_forgets_it(view: KafkaClusterView) -> None:
    admin = answered_by(view, Admin([21]))
    view._leaders = KnownLeaders(admin, {"metadata.max.age.ms": "0"})  # type: ignore[arg-type]
    with pytest.raises(KafkaAccessError, match="no leader"):
        view.latest([PARTITION])


def test_another_client_has_to_learn_the_leaders_itself(view: KafkaClusterView) -> None:
    first, second = Admin([21]), Admin([22])
    admin = SimpleNamespace(client=first, metadata=first.metadata, poll=first.poll)
    answered_by(view, admin)  # type: ignore[arg-type]
    assert view.latest([PARTITION]) == {PARTITION: 21}
    admin.client, admin.metadata = second, second.metadata
    assert view.latest([PARTITION]) == {PARTITION: 22}
    assert (first.asked, second.asked) == (["metadata", "offsets"],) * 2


def test_an_end_is_confirmed_by_the_leader_that_every_broker_names(view: KafkaClusterView) -> None:
    admin = answered_by(view, Brokers(900, 1000, [2, 2, 2]))
    assert view.log_ends([PARTITION]) == {PARTITION: 900}, "of the leader that is known for minutes"
    del admin.asked[:]
    assert view.confirmed_ends([PARTITION]) == {PARTITION: 1000}
    assert admin.asked == ["a broker"] * 3 + ["offsets"]
    view.latest([PARTITION])
    assert admin.asked[4:] == ["metadata", "offsets"], "the known leader is not believed any longer"


@pytest.mark.parametrize("first", [[1, 2, 2], [2, -1], [2, 7], [2, None], []])
def test_an_end_waits_until_the_brokers_agree(view: KafkaClusterView, first: list[int | None]) -> None:
    admin = answered_by(view, Brokers(900, 1000, first, [2, 2, 2]))
    assert view.confirmed_ends([PARTITION]) == {PARTITION: 1000}
    assert admin.asked == ["a broker"] * (len(first) + 3) + ["offsets"]


@pytest.mark.parametrize(
    ("leaders", "kind", "message"),
    [([1, 2, 2], LeaderUnavailable, r"leader of in-0: \[1, 2\]"), ([2, None], KafkaUnreachable, "broker 2 at there:1")],
)
def test_an_end_that_no_agreed_leader_confirms_is_not_known(
    view: KafkaClusterView, leaders: list[int | None], kind: type[KafkaAccessError], message: str
) -> None:
    admin = answered_by(view, Brokers(900, 1000, leaders))
    with pytest.raises(kind, match=message) as caught:
        view.confirmed_ends([PARTITION])
    assert not caught.value.fatal
    assert "offsets" not in admin.asked


def test_topic_ids_are_in_kafkas_letters_and_only_where_there_is_one(view: KafkaClusterView) -> None:
    ids = {"odd": Uuid(-(1 << 58) - 1, -1), "old": Uuid(0, 0)}
    assert str(ids["odd"]).startswith("+////"), "the client's base64"

    def describe(wanted: Any, **_: Any) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {}
        for name, each in ids.items():
            answers[name] = Future()
            answers[name].set_result(SimpleNamespace(topic_id=each, partitions=[]))
        return answers

    view._admin.client = SimpleNamespace(describe_topics=describe, poll=lambda _: None)  # type: ignore[assignment]
    assert view.topic_ids(ids) == {"odd": "-_________"}
