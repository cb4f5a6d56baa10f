"""Checks before anything is claimed or started: clients' properties, then brokers and topics, within seconds."""

from __future__ import annotations

import logging
import time

from sparkapp.model.client_config import cluster_config, consumer_config
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import TopicNotFound, TransactionTimeoutTooLong
from sparkapp.model.job import Job, OnTopicDeleted, TransactionTimeout, dead_letter_topics
from sparkapp.model.semantic import Semantic
from sparkapp.native.batch import implementation
from sparkapp.native.client_check import check_consumer, check_producer
from sparkapp.native.topic_pattern import check_no_loop
from sparkapp.sink.writer import producer_config
from sparkapp.source.cluster import KafkaClusterView, known_topics, require_topics
from sparkapp.source.subscriber import require, subscriber_of

LOG = logging.getLogger(__name__)

_MAX_TIMEOUT = "transaction.max.timeout.ms"
_YOUNG_SECONDS = 3.0
"""A topic that was created a moment ago may not be in the metadata of the broker that is asked."""
_PAUSE = 0.2


def checked_consumer_config(job: Job, *, password: str) -> dict[str, str]:
    """The configuration of the job's consumer, after librdkafka has looked at it and at the producers'.

    Needs no broker; called by the driver first of all.

    :raises ExtensionMissing: the image was built without the batch path's C extension.
    :raises ConfigurationError: it does not know a property, or refuses a value; the message names field and property.
    """
    LOG.info("batch path: %s", implementation())
    source, sink = job.spec.source, job.spec.sink
    consumer = consumer_config(job, password=password)
    check_consumer(consumer, source.properties)
    shared = cluster_config(job.spec.kafka, password=password, client_id=f"{job.namespace}.{job.name}-check")
    config = producer_config(job, shared)
    if sink.semantic is Semantic.EXACTLY_ONCE:
        config["transactional.id"] = sink.transactional_id_prefix
    check_producer(config, sink.properties)
    return consumer


def check_kafka(job: Job, cluster: KafkaClusterView) -> None:
    """Reaches the brokers, looks for the topics, compares the transaction time-out.

    :raises ConfigurationError: the job would read what it writes, or ``source.topicPattern`` is not of RE2.
    :raises KafkaUnreachable: and AuthenticationFailed, AuthorizationFailed: no broker lets us in.
    :raises TopicNotFound: a source topic, the sink topic or the dead letter topic does not exist (topics are never
        created by guess).
    :raises TransactionTimeoutTooLong: the broker allows a shorter one; a producer would only say so after Spark has
        come up.
    """
    check_no_loop(job.spec)
    deadline = Deadline.after(_YOUNG_SECONDS)
    while True:
        try:
            _check_topics(job, cluster)
            break
        except TopicNotFound:
            if deadline.expired:
                raise
        time.sleep(_PAUSE)
    if job.spec.sink.semantic is not Semantic.EXACTLY_ONCE:
        return
    told = cluster.broker_config(_MAX_TIMEOUT)
    allowed = min((int(value) for value in told.values() if value.isdigit()), default=None)
    wanted = job.spec.sink.transaction_timeout_millis
    if allowed is not None and wanted > allowed:
        raise _too_long(job, wanted, allowed)


def _too_long(job: Job, wanted: int, allowed: int) -> TransactionTimeoutTooLong:
    if job.spec.sink.transaction_timeout is TransactionTimeout.NEVER:
        msg = f"spec.sink.transactionTimeout: Never needs {_MAX_TIMEOUT}={wanted} on every broker: it is {allowed}"
        return TransactionTimeoutTooLong(
            msg,
            remedy=f"add {_MAX_TIMEOUT}={wanted} to server.properties of every broker and restart them one by one,"
            f" or: kubectl patch ksj {job.name} -n {job.namespace} --type merge"
            """ -p '{"spec":{"sink":{"transactionTimeout":"Seconds"}}}'""",
        )
    msg = f"spec.sink.transactionTimeoutSeconds {wanted // 1000} is beyond the broker's {_MAX_TIMEOUT} = {allowed} ms"
    return TransactionTimeoutTooLong(
        msg,
        remedy=f"set spec.sink.transactionTimeoutSeconds to at most {allowed // 1000},"
        f" or raise the broker's {_MAX_TIMEOUT}",
    )


def _check_topics(job: Job, cluster: KafkaClusterView) -> None:
    written = [job.spec.sink.topic, *dead_letter_topics(job.spec)]
    subscriber = subscriber_of(job.spec.source)
    topics = known_topics(cluster, {*written, *subscriber.named})
    require_topics(topics, written)
    if job.spec.source.on_topic_deleted is OnTopicDeleted.FAIL:
        require(subscriber, topics, or_nothing=True)
