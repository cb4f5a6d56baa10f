"""Checks before an attempt claims or starts anything: client properties, then rights, brokers and topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from sparkapp.clients.cluster_view import known_topics
from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.security.mounted import check_usable
from sparkapp.clients.topics.topic_pattern import check_no_loop
from sparkapp.clients.transactions.rights import RightsProbe
from sparkapp.dataplane.batch import implementation
from sparkapp.dataplane.client_check import check_consumer, check_producer
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.delivery_guarantee import OffsetCommit
from sparkapp.model.errors import AuthorizationFailed, KafkaAccessError, TopicNotFound, TransactionTimeoutTooLong
from sparkapp.model.job.client.config import OfClusters, client_configs, sink_config
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.source import OnTopicDeleted
from sparkapp.model.job.spec import Job
from sparkapp.model.job.startup import StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.delivery import producer_config
from sparkapp.source.enumerator.subscriber import not_found, subscriber_of
from sparkapp.spark.preflight.job_clusters import JobClusters

LOG = logging.getLogger(__name__)

_MAX_TIMEOUT = "transaction.max.timeout.ms"
_YOUNG_SECONDS = 3.0
"""A new topic may be missing in a broker's metadata for so long."""
_PAUSE = 0.2
_RIGHTS_SECONDS = 20.0


class Right(NamedTuple):
    """An operation on a topic, a group, or the transactional ids of a prefix; and the cluster that grants it."""

    operation: str
    kind: str
    name: str
    cluster: KafkaCluster

    @property
    def options(self) -> str:
        """The options of ``kafka-acls.sh`` that grant it."""
        prefixed = " --resource-pattern-type prefixed" if self.kind == "transactional-id" else ""
        operation = self.operation.title().replace("_", "")
        return f"--operation {operation} --{self.kind} {self.name}{prefixed}"


def checked_configs(job: Job, security: OfClusters) -> OfClusters:
    """The configurations of the job's clients, after librdkafka accepted those of its consumer and its producers.

    Needs no broker; called by the wiring first of all.

    :raises ExtensionMissing: the image was built without the batch path's C extension.
    :raises ConfigurationError: librdkafka does not know a property or refuses a value. The message names both.
    """
    LOG.info("batch path: %s", implementation())
    source, sink = job.spec.source, job.spec.sink
    configs = client_configs(job, security)
    check_consumer(dict(configs.source), source.properties)
    config = producer_config(job, sink_config(job, security=security.sink, role="-check"))
    if sink.delivery_guarantee.transactional:
        config["transactional.id"] = sink.transactional_id_prefix
    check_producer(config, sink.properties)
    return configs


def check_credentials(job: Job, security: OfClusters) -> None:
    """Whether the clients could use the new content of the job's Secrets.

    :raises KafkaSparkJobError: why they could not.
    """
    for properties in security:
        check_usable(properties)
    configs = checked_configs(job, security)
    clusters = JobClusters.opened(job, configs)
    try:
        check_rights(job, clusters, configs)
    finally:
        clusters.close()


def check_rights(job: Job, clusters: JobClusters, configs: OfClusters) -> None:
    """Finds the missing rights of docs/kafka-acls.md, before a task fails for one of them.

    Called by the wiring before :func:`check_kafka`, because brokers hide topics that the user may not describe. Brokers
    report the rights on topics. Those on group and transactional ids show in answers to requests that change nothing.

    :param configs: of the job's clients.
    :raises AuthorizationFailed: naming each missing right, with the command that grants it.
    :raises KafkaAccessError: no broker accepts the connection.
    """
    probing = run_in_background(lambda: _missing_of_coordinators(job, configs), name="rights")
    missing = _missing_of_topics(job, clusters)
    # OffsetFetch also needs the topic, so its answer counts only where the topic's rights are complete.
    missing = missing or probing.result()
    if missing:
        raise _refusal(missing)


def check_kafka(job: Job, clusters: JobClusters) -> None:
    """Reaches the brokers, finds the topics and compares the transaction time-out; called by the wiring.

    :raises ConfigurationError: the job would read what it writes, or RE2 refuses ``source.topicPattern``.
    :raises KafkaUnreachable: and AuthenticationFailed, AuthorizationFailed: no broker accepts the connection.
    :raises TopicNotFound: a source topic, the sink topic or the dead letter topic does not exist. The job creates no
        topic.
    :raises TransactionTimeoutTooLong: the brokers allow only a shorter time-out. A producer would find out after Spark
        has come up.
    """
    check_no_loop(job.spec)
    deadline = Deadline.after(_YOUNG_SECONDS)
    while True:
        try:
            _check_topics(job, clusters)
            break
        except TopicNotFound:
            if deadline.expired:
                raise
        time.sleep(_PAUSE)
    if not job.spec.sink.delivery_guarantee.transactional:
        return
    values = clusters.sink.broker_config(_MAX_TIMEOUT).values()
    allowed = min((int(value) for value in values if value.isdigit()), default=None)
    wanted = job.spec.sink.transaction_timeout_millis
    if allowed is not None and wanted > allowed:
        raise _too_long(job, wanted, allowed)


def with_record_limits(job: Job, cluster: KafkaClusterView) -> Job:
    """The job with ``max.message.bytes`` of the topics that it writes, for its tasks. Called by the wiring.

    :param cluster: of the sink.
    A topic whose settings the user may not read has none, and the job works without.
    """
    try:
        found = cluster.topic_setting("max.message.bytes", [job.spec.sink.topic, *job.spec.record_errors.topics])
    except KafkaAccessError as error:
        LOG.info("the limits of the sink's topics are not known: %s", error.message)
        found = {}
    return replace(job, record_limits={topic: int(value) for topic, value in found.items() if value.isdecimal()})


def _too_long(job: Job, wanted: int, allowed: int) -> TransactionTimeoutTooLong:
    if not job.spec.sink.transactions_expire:
        msg = f"spec.sink.transactions.timeoutSeconds 0 needs {_MAX_TIMEOUT}={wanted} on every broker: it is {allowed}"
        return TransactionTimeoutTooLong(
            msg,
            remedy=f"add {_MAX_TIMEOUT}={wanted} to server.properties of every broker and restart them one by one,"
            f" or: kubectl patch ksj {job.name} -n {job.namespace} --type merge"
            f""" -p '{{"spec":{{"sink":{{"transactions":{{"timeoutSeconds":{allowed // 1000}}}}}}}}}'""",
        )
    msg = f"spec.sink.transactions.timeoutSeconds {wanted // 1000} is beyond the broker's {_MAX_TIMEOUT} = {allowed} ms"
    return TransactionTimeoutTooLong(
        msg,
        remedy=f"set spec.sink.transactions.timeoutSeconds to at most {allowed // 1000},"
        f" or raise the broker's {_MAX_TIMEOUT}",
    )


def _check_topics(job: Job, clusters: JobClusters) -> None:
    subscriber, dead_letters = subscriber_of(job.spec.source), job.spec.record_errors.topics
    written = {job.spec.sink.topic: "sink topic", **dict.fromkeys(dead_letters, "dead letter topic")}
    if clusters.are_shared:
        read = there = known_topics(clusters.source, {*written, *subscriber.named})
    else:
        read, there = known_topics(clusters.source, subscriber.named), known_topics(clusters.sink, written)
    missing = [f"{role} {name!r}" for name, role in written.items() if name not in there]
    if job.spec.source.on_topic_deleted is OnTopicDeleted.FAIL and (unread := subscriber.missing(read)):
        missing.insert(0, unread)
    if missing:
        raise not_found(*missing)


def _missing_of_topics(job: Job, clusters: JobClusters) -> list[Right]:
    spec, subscriber = job.spec, subscriber_of(job.spec.source)
    # Brokers list only topics that the user may describe; the right to read one of them can still be missing.
    read = subscriber.named or {partition.topic for partition in subscriber.partitions(clusters.source.topics())}
    reads = dict.fromkeys(sorted(read), "READ")
    writes = dict.fromkeys([spec.sink.topic, *spec.record_errors.topics], "WRITE")
    asked = (
        [(clusters.source, spec.kafka, reads | writes)]
        if clusters.are_shared
        else [(clusters.source, spec.kafka, reads), (clusters.sink, spec.sink_cluster, writes)]
    )
    missing = []
    for view, cluster, needed in asked:
        allowed = {name: facts.operations for name, facts in view.facts(needed).items()}
        missing += [
            Right(operation, "topic", name, cluster)
            for name, operation in needed.items()
            if (granted := allowed.get(name)) is not None and operation not in granted
        ]
    return missing


def _missing_of_coordinators(job: Job, configs: OfClusters) -> list[Right]:
    spec, deadline = job.spec, Deadline.after(_RIGHTS_SECONDS)
    missing = []
    # Any topic will do: the group is checked first.
    topic = TopicPartition(min(subscriber_of(spec.source).named, default=spec.sink.topic), 0)
    group, prefix = spec.source.group_id, spec.sink.transactional_id_prefix
    with closing(RightsProbe(configs.source)) as probe:
        if _uses_group(job) and not probe.may_read_group(group, topic, deadline):
            missing.append(Right("READ", "group", group, spec.kafka))
    with closing(RightsProbe(configs.sink)) as probe:
        if spec.sink.delivery_guarantee.transactional and not probe.may_write_id(offsets_id(prefix), deadline):
            missing.append(Right("WRITE", "transactional-id", f"{prefix}-", spec.sink_cluster))
    return missing


def _uses_group(job: Job) -> bool:
    source = job.spec.source
    return (
        source.offset_commit is not OffsetCommit.DISABLED
        or source.startup.mode is StartupMode.GROUP_OFFSETS
        or source.group_membership.subscribes
    )


def grants(missing: Iterable[Right]) -> str:
    """The commands that grant these rights to the job's user."""
    return "; ".join(_grant(right) for right in missing)


def _grant(right: Right) -> str:
    authentication = right.cluster.authentication
    user = (authentication and (authentication.username or authentication.client_id)) or "USER"
    return (
        f"kafka-acls.sh --bootstrap-server {right.cluster.bootstrap_servers} --add"
        f" --allow-principal User:{user} {right.options}"
    )


def _refusal(missing: list[Right]) -> AuthorizationFailed:
    listed = ", ".join(f"{right.operation} on {right.kind} {right.name}" for right in missing)
    return AuthorizationFailed(f"the job's Kafka user lacks {listed}", remedy=grants(missing))
