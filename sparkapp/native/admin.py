"""A client for questions to the cluster that outlives its brokers' short absences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from sparkapp.model.client_config import cluster_properties


class ClusterAdmin:
    """librdkafka's client for questions, and another one once it knows no broker any more.

    Where the only broker was fenced for a moment, a metadata answer has topics and no brokers. librdkafka takes it for
    a good one, ends its connections and has nobody left to ask (its issue 5301): each later question finds no broker,
    for ever. One that begins with ``bootstrap.servers`` again finds them.

    Thread-safe as librdkafka's clients are: who still asks the former client keeps it.

    :param config: librdkafka properties of the cluster.
    :param on_error: hears what the client says on its own account, called within :meth:`poll`.
    """

    def __init__(self, config: Mapping[str, str], *, on_error: Callable[[KafkaError], object] | None = None) -> None:
        self._config: dict[str, object] = dict(cluster_properties(config))
        if on_error is not None:
            self._config["error_cb"] = on_error
        self.client = AdminClient(self._config)

    def metadata(self, topic: str | None = None, *, timeout: float) -> ClusterMetadata:
        """What the brokers know of one topic, or of all.

        :param timeout: seconds; the second half is for another client where the present one finds no broker.
        :raises KafkaException: no answer, or a refusal.
        """
        names = () if topic is None else (topic,)
        try:
            return self.client.list_topics(*names, timeout=timeout / 2)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._TRANSPORT:
                raise
        self.client = AdminClient(self._config)
        return self.client.list_topics(*names, timeout=timeout / 2)

    def poll(self) -> None:
        """Has the client say what it has to say; callbacks are called in here and nowhere else."""
        self.client.poll(0)
