"""The cluster view of a real cluster, by confluent_kafka's admin client."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from sparkapp.clients.admin import ClusterAdmin
from sparkapp.clients.cluster_view import FoundRecord
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.errors import COORDINATOR_MOVES, LEADER_MOVES, NO_ANSWER, error_for
from sparkapp.clients.leaders import KnownLeaders, list_offsets
from sparkapp.clients.security.oauth_token import with_token_callback
from sparkapp.clients.security.tls_diagnosis import tls_problem
from sparkapp.clients.topics.topic_facts import TopicFacts, facts_of, settings_of
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable, TlsFailed
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Asked = TypeVar("Asked")

_PAUSE = 0.1
_REQUEST_SECONDS = 6.0
"""For one answer of a partition's leader: librdkafka waits for a leader that has died."""
_PASSING = COORDINATOR_MOVES | LEADER_MOVES | {KafkaError.UNSTABLE_OFFSET_COMMIT}
_TLS_SECONDS = 6.0
"""For the look why TLS fails."""
_IN_A_REQUEST = 500
"""Partitions in one request. librdkafka searches the request's list for each answer: 10,000 partitions in one
ListOffsets take more than two seconds, in twenty requests a sixth of that. Two kinds of offsets at once were no
faster."""
_ID_LENGTH = 10
"""Characters of six bits: two topics of a name differ in them, and a document of 10,000 topics holds them."""
_URL_SAFE = str.maketrans("+/", "-_")
_YOUNG = KafkaError.UNKNOWN_TOPIC_OR_PART
_YOUNG_SECONDS = 3.0
"""A new topic is in the metadata before its leaders answer; a deleted topic stays unknown."""

GROUP_OFFSETS = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS, "__transaction_state", "__share_group_state"})


class KafkaClusterView:
    """Answers from the real brokers; one per driver, thread-safe as librdkafka's clients are.

    :param config: the job's consumer configuration.
    :param read_committed: whether :meth:`latest` stops at the last stable offset.
    :param timeout: seconds for one question.
    """

    def __init__(self, config: Mapping[str, str], *, read_committed: bool, timeout: float = 20.0) -> None:
        self._config = dict(config)
        self._timeout = timeout
        self._errors: deque[Any] = deque(maxlen=20)
        self._admin = ClusterAdmin(config, on_error=self._errors.append)
        self._leaders = KnownLeaders(self._admin, config)
        self._brokers: tuple[int, ...] = ()
        self._cluster_id: str | None = None
        self._isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED

    def close(self) -> None:
        """Ends the client, which ends when its last reference is dropped."""
        del self._leaders
        del self._admin

    def cluster_id(self) -> str:
        """Kafka's id of the cluster, of the last :meth:`topics`; empty where the brokers have none.

        :raises KafkaAccessError: no broker answered.
        """
        if self._cluster_id is None:
            self.topics()
        return self._cluster_id or ""

    def topics(self) -> dict[str, int]:
        metadata = self._patiently(lambda: self._admin.metadata(timeout=self._timeout), "asking the brokers for topics")
        self._brokers = tuple(metadata.brokers)
        self._cluster_id = metadata.cluster_id or ""
        self._leaders.note(metadata)
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if name not in INTERNAL_TOPICS and topic.error is None
        }

    def existing(self, topics: Iterable[str]) -> dict[str, int]:
        return {name: len(found.partitions) for name, found in self._described(topics).items()}

    def gone(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        asked = set(partitions)
        there = self.existing({each.topic for each in asked})
        found = {each for each in asked if each.partition >= there.get(each.topic, 0)}
        if found:
            ask = partial(self._admin.metadata_of_each, timeout=_REQUEST_SECONDS)
            # With patience: a dead broker is listed for some seconds.
            for metadata in self._patiently(ask, "asking each broker for topics", [each.topic for each in found]):
                counts = {name: len(topic.partitions) for name, topic in metadata.topics.items()}
                found = {each for each in found if each.partition >= counts.get(each.topic, 0)}
        return found

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        found = {
            # The client's base64 and Kafka's differ in the characters for 62 and 63.
            name: str(topic.topic_id)[:_ID_LENGTH].translate(_URL_SAFE)
            for name, topic in self._described(topics).items()
        }
        # Brokers before 3.0 answer zero.
        return {name: topic_id for name, topic_id in found.items() if topic_id.strip("A")}

    def _described(self, topics: Iterable[str]) -> dict[str, Any]:
        """The topics that exist.

        :raises KafkaAccessError: the answer for a topic is neither its description nor that it does not exist.
        """
        wanted = sorted(set(topics))

        def ask(some: Sequence[str], client: AdminClient, seconds: float) -> dict[str, Any]:
            found = {}
            for name, answer in client.describe_topics(TopicCollection(list(some)), request_timeout=seconds).items():
                try:
                    found[name] = answer.result()
                except KafkaException as error:
                    code = error.args[0].code()
                    if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise KafkaException(KafkaError(code, f"topic {name}: {error.args[0].str()}")) from error
            return found

        described: dict[str, Any] = {}
        for some in _requests(wanted):
            described |= self._ask(partial(ask, some), "asking the brokers for topics by name")
        return described

    def facts(self, topics: Iterable[str]) -> dict[str, TopicFacts]:
        """Copies and rights of the topics that exist.

        :raises KafkaAccessError: no answer.
        """
        return self._ask(partial(facts_of, topics), "asking the brokers for copies of topics and rights on them")

    def topic_setting(self, name: str, topics: Iterable[str]) -> dict[str, str]:
        """A setting of topics as it is in force; :func:`settings_of` says which topics are absent.

        :raises KafkaAccessError: no answer.
        """
        return self._ask(partial(settings_of, name, topics), f"asking the brokers for {name} of topics")

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._list_offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._list_offsets(partitions, OffsetSpec.latest())

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._list(dict.fromkeys(partitions, OffsetSpec.latest()), IsolationLevel.READ_UNCOMMITTED)
        return {partition: info.offset for partition, info in found.items()}

    def confirmed_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        specs = dict.fromkeys(partitions, OffsetSpec.latest())
        found = self._list(specs, IsolationLevel.READ_UNCOMMITTED, self._leaders.agreed)
        return {partition: info.offset for partition, info in found.items()}

    def records_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundRecord]:
        specs = {partition: OffsetSpec.for_timestamp(millis) for partition, millis in times.items()}
        # At read_committed brokers keep a record to themselves that is behind an open transaction.
        found = self._list(specs, IsolationLevel.READ_UNCOMMITTED)
        return {
            partition: FoundRecord(info.offset, info.timestamp) for partition, info in found.items() if info.offset >= 0
        }

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = [ClientPartition(topic, partition) for topic, partition in partitions]
        # A client for each of the few questions: an idle client may lose its brokers for ever.
        consumer = Consumer({**with_token_callback(self._config), "error_cb": self._errors.append})

        def ask(some: Sequence[ClientPartition]) -> dict[TopicPartition, int]:
            result = {}
            try:
                answers = consumer.committed(list(some), timeout=self._timeout)
            finally:
                consumer.poll(0)  # Serves its error callback.
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
                if answer.offset >= 0:
                    result[TopicPartition(answer.topic, answer.partition)] = answer.offset
            return result

        found: dict[TopicPartition, int] = {}
        try:
            for some in _requests(wanted):
                found |= self._patiently(partial(ask, some), "reading the group's committed offsets")
        finally:
            consumer.close()
        return found

    def broker_config(self, name: str) -> dict[int, str]:
        """A setting of each broker of the last :meth:`topics`; brokers that refuse to answer are absent."""
        found = {}
        resources = {ConfigResource(ResourceType.BROKER, str(broker)): broker for broker in self._brokers}
        answers = self._admin.client.describe_configs(list(resources), request_timeout=self._timeout)
        for resource, broker in resources.items():
            try:
                entry = answers[resource].result().get(name)
            except KafkaException as error:
                LOG.warning("setting %s of broker %d could not be read: %s", name, broker, error)
                continue
            if entry is not None:
                found[broker] = str(entry.value)
        return found

    def _list_offsets(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        return {partition: info.offset for partition, info in self._list(dict.fromkeys(partitions, spec)).items()}

    def _list(
        self,
        specs: Mapping[TopicPartition, OffsetSpec],
        isolation: IsolationLevel | None = None,
        find: Callable[[Iterable[TopicPartition]], AdminClient] | None = None,
    ) -> dict[TopicPartition, Any]:
        """
        :param isolation: None for the job's own.
        :param find: a client that knows the leaders; None for the view's own.
        """
        isolation = self._isolation if isolation is None else isolation
        wanted = [(ClientPartition(*partition), spec) for partition, spec in specs.items()]
        requests = [dict(some) for some in _requests(wanted)]
        request_seconds = min(_REQUEST_SECONDS, self._timeout)

        def ask() -> dict[TopicPartition, Any]:
            client = self._leaders.require(specs) if find is None else find(specs)
            return list_offsets(client, requests, isolation, timeout=request_seconds)

        topics = sorted({partition.topic for partition in specs})
        return self._patiently(ask, "listing offsets", topics) if requests else {}

    def _ask(self, question: Callable[[AdminClient, float], Answer], what: str) -> Answer:
        """Of any broker."""
        return self._patiently(lambda: self._admin.ask(question, timeout=self._timeout), what)

    def _patiently(self, ask: Callable[[], Answer], what: str, topics: Sequence[str] = ()) -> Answer:
        """Retries while a leader or a coordinator moves or a topic is new, until the time limit.

        :param topics: topics whose leaders are asked.
        """
        began = time.monotonic()
        self._admin.poll()
        self._errors.clear()  # those of earlier questions
        while True:
            try:
                return ask()
            except KafkaException as error:
                # ListOffsets alone does not refresh metadata: librdkafka would ask the known leaders for minutes.
                self._leaders.forget()
                code = error.args[0].code()
                passing = code in _PASSING or (bool(topics) and code in NO_ANSWER)
                patience = _YOUNG_SECONDS if code == _YOUNG else self._timeout if passing else 0.0
                if time.monotonic() - began >= patience:
                    raise self._translated(error, what) from error
            time.sleep(_PAUSE)

    def _translated(self, error: KafkaException, what: str) -> KafkaAccessError:
        """A time-out hides its cause: the error callback has it (authentication, DNS …)."""
        translated = error_for(error.args[0], what)
        if isinstance(translated, KafkaUnreachable | TlsFailed):
            self._admin.poll()
            for heard in tuple(self._errors):
                better = error_for(heard, what)
                if type(better) not in (KafkaUnreachable, KafkaAccessError, TlsFailed):
                    return better if isinstance(better, KafkaAccessError) else translated
            return tls_problem(self._config, Deadline.after(_TLS_SECONDS)) or translated
        return translated if isinstance(translated, KafkaAccessError) else KafkaAccessError(str(translated))


def _requests(wanted: Sequence[Asked]) -> list[Sequence[Asked]]:
    return [wanted[first : first + _IN_A_REQUEST] for first in range(0, len(wanted), _IN_A_REQUEST)]
