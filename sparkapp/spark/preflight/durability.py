"""Whether one broker's outage can stop or lose the job's transactions: copies and ``min.insync.replicas`` of topics.

A finding is a warning and stops no start: a cluster of one broker is enough to try a job.
"""

from __future__ import annotations

import json
import logging
import time
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.kafka_cluster_view import GROUP_OFFSETS
from sparkapp.clients.topics.topic_facts import TopicFacts
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.errors import KafkaAccessError
from sparkapp.model.event_reason import DriverEvent, Durability
from sparkapp.model.job.spec import Job
from sparkapp.spark.preflight.checks import Right, grants

LOG = logging.getLogger(__name__)

_IN_SYNC = "min.insync.replicas"
_YOUNG_SECONDS = 3.0
"""The first request for a group makes a new cluster's topic of offsets, which appears a moment later."""
_PAUSE = 0.2
_OUTAGE = (
    "While the broker of the only copy in sync is away, no transaction can end there."
    " Readers of the partition wait, and the job waits or restarts."
    " If the broker's disk is lost, committed records and offsets are lost."
)


class Cluster(Protocol):
    """The questions of this look; the cluster view answers them."""

    def facts(self, topics: list[str]) -> dict[str, TopicFacts]: ...

    def topic_setting(self, name: str, topics: list[str]) -> dict[str, str]: ...


class Shown(Protocol):
    """Where the finding is shown; the driver's reporter."""

    def update(self, **changes: Any) -> None: ...

    def warn(self, reason: DriverEvent, message: str) -> None: ...


class Finding(NamedTuple):
    """What the condition TransactionsDurable shows.

    :param message: cause, effect and remedy; empty where all is well.
    :param event: the message of the warning event; empty without one.
    """

    reason: Durability
    message: str = ""
    event: str = ""


def show_durability(job: Job, cluster: Cluster, shown: Shown) -> Future[None]:
    """Looks at the topics while other checks run, and shows the finding in status and events.

    Called by the wiring once an attempt, after the check of rights. It costs two requests, and no start waits for it.

    :returns: done when the finding is shown. No error of the look is raised.
    """

    def show() -> None:
        try:
            found = find_durability(job, cluster)
        except KafkaAccessError as error:
            LOG.warning("copies of the topics are unknown: %s", error)
            return
        shown.update(durability=found.reason, durability_message=found.message)
        if found.event:
            LOG.warning("%s", found.event)
            shown.warn(DriverEvent.TRANSACTIONS_NOT_DURABLE, found.event)

    if job.spec.sink.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        done: Future[None] = Future()
        done.set_result(None)
        return done
    return run_in_background(show, name="durability")


def find_durability(job: Job, cluster: Cluster) -> Finding:
    """Asks for the topics that the job's transactions write, and judges them.

    With ``sink.topicFrom: Column`` the topics of the column are not known yet.

    :raises KafkaAccessError: no answer.
    """
    spec = job.spec
    topics = [spec.sink.topic, *spec.record_errors.topics]
    if spec.source.offset_commit is not OffsetCommit.DISABLED:
        topics.append(GROUP_OFFSETS)
    deadline = Deadline.after(_YOUNG_SECONDS)
    while not (facts := cluster.facts(topics)).keys() >= set(topics) and not deadline.expired:
        time.sleep(_PAUSE)
    return judge(job, topics, facts, cluster.topic_setting(_IN_SYNC, topics))


def judge(job: Job, topics: list[str], facts: dict[str, TopicFacts], in_sync: dict[str, str]) -> Finding:
    """The finding; pure.

    :param in_sync: ``min.insync.replicas`` of the topics whose settings the user may read.
    """
    few = {name: copies for name in topics if 1 in (copies := facts.get(name, TopicFacts()).copies)}
    alone = [name for name in topics if in_sync.get(name) == "1"]
    hidden = [name for name in topics if name in facts and not facts[name].copies]
    unread = [name for name in topics if name in facts and name not in in_sync and name not in hidden]
    causes = [_few_copies(name, copies) for name, copies in few.items()]
    causes += [f"{_IN_SYNC} of topic {name} is 1" for name in alone if name not in few]
    if causes:
        listed = ", ".join(causes)
        return Finding(
            Durability.NOT_REPLICATED,
            f"attempt {job.attempt} found: {listed}. {_OUTAGE} Fix: {'; '.join(_commands(job, few, alone))}",
            f"one broker's outage can stop or lose transactions: {listed}; see condition TransactionsDurable",
        )
    unknown = [f"topic {name} does not exist yet" for name in topics if name not in facts]
    missing = [Right("DESCRIBE", "topic", name) for name in hidden]
    missing += [Right("DESCRIBE_CONFIGS", "topic", name) for name in unread]
    if missing:
        listed = ", ".join(f"{right.operation} on topic {right.name}" for right in missing)
        unknown.append(f"the job's Kafka user lacks {listed}. Fix: {grants(job, missing)}")
    if unknown:
        return Finding(Durability.SETTINGS_UNKNOWN, f"copies in sync are unknown: {'; '.join(unknown)}")
    return Finding(Durability.REPLICATED)


def _few_copies(name: str, copies: tuple[int, ...]) -> str:
    number = copies.count(1)
    where = "" if number == len(copies) else f" of {number} of its {len(copies)} partitions"
    return f"topic {name} has one copy{where}"


def _commands(job: Job, few: dict[str, tuple[int, ...]], alone: list[str]) -> list[str]:
    servers = f"--bootstrap-server {job.spec.kafka.bootstrap_servers}"
    commands = []
    if few:
        first = [{"topic": name, "partition": copies.index(1), "replicas": [1, 2, 3]} for name, copies in few.items()]
        file = json.dumps({"version": 1, "partitions": first}, separators=(",", ":"))
        commands.append(
            f"kafka-reassign-partitions.sh {servers} --execute --reassignment-json-file copies.json,"
            f" where copies.json names three brokers for every partition with one copy, as {file}"
        )
    commands += [
        f"kafka-configs.sh {servers} --alter --entity-type topics --entity-name {name} --add-config {_IN_SYNC}=2"
        for name in alone
    ]
    return commands
