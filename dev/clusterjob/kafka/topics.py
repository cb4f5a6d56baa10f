"""Creates, empties, deletes and measures topics of the cluster's broker."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from clusterjob.watch import TimedOut
from localcluster.errors import SetupError

_SECONDS = 30.0


class Topics:
    """Administers topics of a broker.

    :param bootstrap: the broker as this machine reaches it.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _client(self) -> AdminClient:
        """A client for a single request. A client that is idle between requests may lose its brokers for ever.

        See librdkafka's issue 5301.
        """
        # librdkafka writes at its own end that nobody has taken an event: a line in the middle of the demo's.
        return AdminClient({"bootstrap.servers": self._bootstrap, "client.id": "kafkaspark-demo", "log_level": 3})

    def recreate(self, names: Iterable[str], *, partitions: int) -> None:
        """Creates empty topics; existing topics of these names are deleted first.

        :raises SetupError: the broker refuses.
        :raises TimedOut: the broker does not finish in time.
        """
        wanted = list(names)
        self.delete(wanted)
        deadline = time.monotonic() + _SECONDS
        missing = wanted
        admin = self._client()
        while missing:
            futures = admin.create_topics([NewTopic(name, partitions, 1) for name in missing])
            still = []
            for name, future in futures.items():
                try:
                    future.result(timeout=_SECONDS)
                except KafkaException as error:
                    # A topic that is being deleted keeps its name for a moment.
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise SetupError(f"topic {name} cannot be created: {error.args[0].str()}") from error
                    still.append(name)
            missing = still
            if missing and time.monotonic() > deadline:
                raise TimedOut(f"topics {', '.join(missing)} are still being deleted")
            self._await_partitions(set(wanted) - set(missing), partitions, deadline)

    def delete(self, names: Iterable[str]) -> None:
        """Deletes the topics that exist."""
        wanted = list(names)
        if not wanted:
            return
        admin = self._client()
        for name, future in admin.delete_topics(wanted).items():
            try:
                future.result(timeout=_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise SetupError(f"topic {name} cannot be deleted: {error.args[0].str()}") from error

    def ends(self, topic: str, *, committed_only: bool = False) -> dict[int, int]:
        """The end of each partition; with ``committed_only`` its last stable offset.

        :raises SetupError: the broker does not know the topic.
        """
        admin = self._client()
        described = admin.list_topics(topic, timeout=_SECONDS).topics[topic]
        if described.error is not None:
            raise SetupError(f"topic {topic} cannot be measured: {described.error.str()}")
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in described.partitions}
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        futures = admin.list_offsets(asked, isolation_level=level, request_timeout=_SECONDS)
        return {partition.partition: future.result().offset for partition, future in futures.items()}

    def held_back(self, topic: str) -> int:
        """Offsets that a read_committed reader cannot reach because a transaction before them is open."""
        # In this order: records written in between make the result smaller, never larger.
        ends = self.ends(topic)
        committed = self.ends(topic, committed_only=True)
        return sum(max(0, end - committed[partition]) for partition, end in ends.items())

    def _await_partitions(self, names: set[str], partitions: int, deadline: float) -> None:
        # The broker answers the creation before every partition has its leader.
        admin = self._client()
        while True:
            known = admin.list_topics(timeout=_SECONDS).topics
            ready = [
                name
                for name in names
                if name in known
                and len(known[name].partitions) == partitions
                and all(partition.leader >= 0 for partition in known[name].partitions.values())
            ]
            if len(ready) == len(names):
                return
            if time.monotonic() > deadline:
                raise TimedOut(f"topics {', '.join(sorted(names - set(ready)))} have no leaders")
            time.sleep(0.05)
