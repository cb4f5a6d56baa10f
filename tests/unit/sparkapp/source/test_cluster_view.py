"""What the driver makes of librdkafka's answers; the fault matrix has them from brokers that die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from sparkapp.model.errors import KafkaAccessError
from sparkapp.model.partition import TopicPartition
from sparkapp.source.cluster import KafkaClusterView

PARTITION = TopicPartition("in", 0)


@pytest.fixture
def view() -> Iterator[KafkaClusterView]:
    made = KafkaClusterView({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, read_committed=True, timeout=0.5)
    yield made
    made.close()


class Admin:
    """Answers with these offsets, one after the other; the last one for ever.

    :param failure: of the first request.
    """

    def __init__(self, offsets: Sequence[int], *, failure: KafkaError | None = None) -> None:
        self.failure = failure
        self.offsets = list(offsets)
        self.refreshed: list[str] = []

    @property
    def client(self) -> Admin:
        return self

    def metadata(self, topic: str, *, timeout: float) -> None:
        self.refreshed.append(topic)

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise KafkaException(failure)
        offset = self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0]
        answers = {}
        for one in wanted:
            answers[one] = Future[Any]()
            answers[one].set_result(SimpleNamespace(offset=offset, timestamp=-1))
        return answers

    def poll(self) -> None:
        """Nothing to tell."""


def test_a_leader_that_died_before_it_answered_is_asked_again(view: KafkaClusterView) -> None:
    """Taken for an offset, it would be one that went back: the topic recreated, and the job stopped for good."""
    admin = view._admin = Admin([OFFSET_INVALID, 21])
    assert view.latest([PARTITION]) == {PARTITION: 21}
    assert admin.refreshed == ["in"], "librdkafka would ask the same leader again"


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.FENCED_LEADER_EPOCH, KafkaError._NOENT])
def test_a_leader_that_died_or_moved_is_looked_for(view: KafkaClusterView, code: int) -> None:
    admin = view._admin = Admin([21], failure=KafkaError(code))
    assert view.latest([PARTITION]) == {PARTITION: 21}
    assert admin.refreshed == ["in"]


def test_a_leader_that_never_answers_is_no_offset(view: KafkaClusterView) -> None:
    view._admin = Admin([OFFSET_INVALID])
    with pytest.raises(KafkaAccessError, match="in-0 has no answer"):
        view.latest([PARTITION])
