"""An admin client that survives short absences of its brokers, and a check of its credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.errors import MEANING, NO_ANSWER, error_for
from sparkapp.clients.security.oauth_token import with_token_callback
from sparkapp.clients.security.tls_diagnosis import tls_problem
from sparkapp.model.errors import AuthenticationFailed
from sparkapp.model.job.client.config import cluster_properties

_LOOK_SECONDS = 3.0

Answer = TypeVar("Answer")


class ClusterAdmin:
    """librdkafka's admin client, replaced once it gets no answer.

    A client waits for the broker that it has asked, and for the cluster's controller as it last knew it. Where that
    broker has died or hangs, the client does not ask another.

    Where the only broker was fenced for a moment, a metadata answer has topics and no brokers. librdkafka accepts it,
    closes its connections and finds no broker for ever (its issue 5301). A new client begins with
    ``bootstrap.servers`` and finds the brokers.

    Thread-safe as librdkafka's clients are: a caller that still asks the previous client keeps it.

    :param config: librdkafka properties of the cluster.
    :param on_error: the client's error callback, called within :meth:`poll`.
    """

    def __init__(self, config: Mapping[str, str], *, on_error: Callable[[KafkaError], object] | None = None) -> None:
        self._config: dict[str, object] = dict(cluster_properties(config))
        if on_error is not None:
            self._config["error_cb"] = on_error
        self.client = AdminClient(with_token_callback(self._config))

    def metadata(self, topic: str | None = None, *, timeout: float) -> ClusterMetadata:
        """Metadata of one topic, or of all topics; :meth:`ask` has times and errors."""
        names = () if topic is None else (topic,)
        return self.ask(lambda client, seconds: client.list_topics(*names, timeout=seconds), timeout=timeout)

    def metadata_of_each(self, *, timeout: float) -> list[ClusterMetadata]:
        """Metadata of all topics, as each broker has it that is part of the cluster now.

        :param timeout: seconds for a broker.
        :raises KafkaException: one of them does not answer.
        """
        return [metadata for _, metadata in self.each(timeout=timeout)]

    def each(self, *, timeout: float) -> Iterator[tuple[AdminClient, ClusterMetadata]]:
        """:meth:`metadata_of_each`, with the new client that asked: its cache has this answer alone."""
        for broker in self.metadata(timeout=timeout).brokers.values():
            # A new client asks the only broker that it knows.
            host = f"[{broker.host}]" if ":" in broker.host else broker.host
            config = {**self._config, "bootstrap.servers": f"{host}:{broker.port}"}
            client = AdminClient(with_token_callback(config))
            try:
                metadata = client.list_topics(timeout=timeout)
            except KafkaException as error:
                where = f"broker {broker.id} at {host}:{broker.port}: {error.args[0].str()}"
                raise KafkaException(KafkaError(error.args[0].code(), where)) from error
            yield client, metadata

    def ask(self, question: Callable[[AdminClient, float], Answer], *, timeout: float) -> Answer:
        """The answer to a question that any broker can answer.

        :param question: called with a client and its seconds.
        :param timeout: seconds; the second half is for a new client where the present client gets no answer.
        :raises KafkaException: no answer, or a refusal.
        """
        try:
            return question(self.client, timeout / 2)
        except KafkaException as failure:
            if failure.args[0].code() not in NO_ANSWER:
                raise
        self.client = AdminClient(with_token_callback(self._config))
        return question(self.client, timeout / 2)

    def poll(self) -> None:
        """Serves the client's callbacks, which are called nowhere else."""
        self.client.poll(0)


def refused_access(config: Mapping[str, str], deadline: Deadline) -> Exception | None:
    """TLS that fails or credentials that are refused; None for another cause.

    Called after a failed connection attempt of another client, which sees the closed connection alone. librdkafka reads
    a broker's reason for refusing credentials.
    """
    problem = tls_problem(config, deadline)
    if problem is not None:
        return problem
    if not any(name.startswith("sasl.") for name in config):
        return None
    errors: list[KafkaError] = []
    admin = AdminClient({**with_token_callback(cluster_properties(config)), "error_cb": errors.append, "log_level": 0})
    look = Deadline.after(deadline.bound(_LOOK_SECONDS), clock=deadline.clock)
    while True:
        admin.poll(look.bound(0.1))
        refused = next((error for error in errors if MEANING.get(error.code()) is AuthenticationFailed), None)
        if refused is not None:
            return error_for(refused, f"connecting to {config['bootstrap.servers']}")
        if look.expired:
            return None
