"""Numbers of partitions of sink topics, asked without creating a topic."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaException

from sparkapp.clients.admin import ClusterAdmin
from sparkapp.clients.deadline import Clock
from sparkapp.clients.errors import error_for
from sparkapp.model.errors import TopicNotFound

FRESH_SECONDS = 300.0
"""Longest time before new partitions are used; librdkafka's default of topic.metadata.refresh.interval.ms."""
_YOUNG_SECONDS = 5.0
"""Seconds of retries for a topic that a broker does not know: it may be new."""
_PAUSE = 0.2


class SinkTopics:
    """A worker process's cache of the brokers' topics; used by its router, by one thread at a time.

    A producer with an unknown topic would make the brokers create it, where they may.

    :param config: librdkafka properties of the cluster.
    :param timeout: seconds for one question.
    """

    def __init__(self, config: Mapping[str, str], *, timeout: float = 20.0, clock: Clock = time.monotonic) -> None:
        self._admin = ClusterAdmin(config)
        self._timeout = timeout
        self._clock = clock
        self._known: dict[str, int] = {}
        self._asked = -FRESH_SECONDS

    def partitions(self, topic: str) -> int:
        """The topic's number of partitions.

        :raises TopicNotFound: there is none, or the user may not describe it. :raises KafkaAccessError: no answer.
        """
        if self._clock() - self._asked >= FRESH_SECONDS:
            self._ask()
        end = self._clock() + _YOUNG_SECONDS
        while topic not in self._known:
            if self._clock() >= end:
                msg = (
                    f"column topic names {topic!r}, which does not exist or may not be described;"
                    " nothing of this checkpoint was committed"
                )
                raise TopicNotFound(
                    msg,
                    remedy=f"create the topic {topic} and grant WRITE on it, or correct the transform's column topic",
                )
            time.sleep(_PAUSE)
            self._ask()
        return self._known[topic]

    def _ask(self) -> None:
        try:
            metadata = self._admin.metadata(timeout=self._timeout)
        except KafkaException as failure:
            raise error_for(failure.args[0], "asking the brokers for the sink's topics") from failure
        self._known = {name: len(found.partitions) for name, found in metadata.topics.items() if found.error is None}
        self._asked = self._clock()
