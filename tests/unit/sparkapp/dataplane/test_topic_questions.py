"""Questions about topics without progress take a second in all, and every topic has its turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkapp.dataplane import reader
from sparkapp.dataplane.plain.consumer import PlainConsumer
from sparkapp.model.partition import TopicPartition


class Asking(PlainConsumer):
    """Reads two partitions of each of three topics, and notes the questions."""

    def __init__(self) -> None:
        super().__init__({"bootstrap.servers": "localhost:1"})
        self.asked: list[str] = []

    def _positions(self) -> list[tuple[TopicPartition, int, int]]:
        return [(TopicPartition(topic, number), 0, 1) for topic in "cab" for number in range(2)]

    def _topic_error(self, topic: str, seconds: float) -> int:
        self.asked.append(topic)
        return 0

    def ask(self) -> list[str]:
        self.asked.clear()
        self._ask_about_topics()
        return list(self.asked)


@pytest.fixture
def consumer() -> Iterator[Asking]:
    consumer = Asking()
    yield consumer
    consumer.close()


def test_answers_that_come_at_once(consumer: Asking) -> None:
    assert [consumer.ask() for _ in range(2)] == [["a", "b", "c"], ["a", "b", "c"]]


def test_an_answer_that_takes_all_the_time(consumer: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_ANSWER_WITHIN", 0.0)
    assert [consumer.ask() for _ in range(4)] == [["a"], ["b"], ["c"], ["a"]]


def test_an_interrupt(consumer: Asking) -> None:
    consumer.interrupt()
    assert consumer.ask() == ["a"]


def test_the_topics_of_a_job_are_learned_before_the_first_read(consumer: Asking) -> None:
    consumer.learn(["b", "a"])
    assert consumer.asked == ["b", "a"]


def test_brokers_that_do_not_answer_delay_no_work(consumer: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_LEARN_SECONDS", 0.0)
    consumer.learn(["a"])
    assert consumer.asked == []


def test_a_consumer_that_is_to_end_learns_nothing_more(consumer: Asking) -> None:
    consumer.interrupt()
    consumer.learn(["a"])
    assert consumer.asked == []
