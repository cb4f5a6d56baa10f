"""Whether one broker's outage can stop or lose the job's transactions: copies and settings of topics, and rights.

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
from sparkapp.model.delivery_guarantee import OffsetCommit
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
    " If the broker's disk is lost, committed records and offsets are lost"
)
_UNPROVEN = (
    "The driver cannot ask leaders of partitions which transactions are open there."
    " After a partition was without a leader, the end of a transaction there is not proven"
)
_UNKNOWN = "It is unknown how many copies are in sync"
_WARNINGS = frozenset({Durability.NOT_REPLICATED, Durability.ENDS_NOT_PROVEN})


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


class _Part(NamedTuple):
    """Of a finding: what is wrong, its effect as sentences, and commands that remove it."""

    reason: Durability
    cause: str
    effect: str
    commands: str = ""

    @property
    def message(self) -> str:
        return f"{self.cause}. {self.effect}" + (f". Fix: {self.commands}" if self.commands else "")


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

    if not job.spec.sink.delivery_guarantee.transactional:
        done: Future[None] = Future()
        done.set_result(None)
        return done
    return run_in_background(show, name="durability")


def find_durability(job: Job, cluster: Cluster) -> Finding:
    """Asks the sink's cluster for the topics that the job's transactions write, and judges them.

    With ``sink.topicFrom: Column`` the topics of the column are not known yet.

    :raises KafkaAccessError: no answer.
    """
    spec = job.spec
    topics = [spec.sink.topic, *spec.record_errors.topics]
    if spec.sink.kafka is None and spec.source.offset_commit is not OffsetCommit.DISABLED:
        topics.append(GROUP_OFFSETS)
    deadline = Deadline.after(_YOUNG_SECONDS)
    while not (facts := cluster.facts(topics)).keys() >= set(topics) and not deadline.expired:
        time.sleep(_PAUSE)
    return judge(job, topics, facts, cluster.topic_setting(_IN_SYNC, topics))


def judge(job: Job, topics: list[str], facts: dict[str, TopicFacts], in_sync: dict[str, str]) -> Finding:
    """The finding; pure.

    :param in_sync: ``min.insync.replicas`` of the topics whose settings the user may read.
    """
    known = {name: facts[name] for name in topics if name in facts}
    few = {name: found.copies for name, found in known.items() if 1 in found.copies}
    alone = [name for name in topics if in_sync.get(name) == "1"]
    causes = [_few_copies(name, copies) for name, copies in few.items()]
    causes += [f"{_IN_SYNC} of topic {name} is 1" for name in alone if name not in few]
    unread = [name for name, found in known.items() if found.operations is not None and "READ" not in found.operations]
    parts = []
    if causes:
        parts.append(
            _Part(Durability.NOT_REPLICATED, ", ".join(causes), _OUTAGE, "; ".join(_commands(job, few, alone)))
        )
    if unread:
        parts.append(_lacking(job, Durability.ENDS_NOT_PROVEN, "READ", unread, _UNPROVEN))
    hidden = [name for name in known if name not in in_sync and name not in few]
    if hidden:
        parts.append(_lacking(job, Durability.SETTINGS_UNKNOWN, "DESCRIBE_CONFIGS", hidden, _UNKNOWN))
    absent = [f"topic {name} does not exist yet" for name in topics if name not in known]
    if absent:
        parts.append(_Part(Durability.SETTINGS_UNKNOWN, ", ".join(absent), _UNKNOWN))
    if not parts:
        return Finding(Durability.REPLICATED)
    warned = "; ".join(part.cause for part in parts if part.reason in _WARNINGS)
    event = f"an outage of one broker is a risk for transactions, see condition TransactionsDurable: {warned}"
    message = f"attempt {job.attempt} found: {'; also: '.join(part.message for part in parts)}"
    return Finding(parts[0].reason, message, event if warned else "")


def _lacking(job: Job, reason: Durability, operation: str, topics: list[str], effect: str) -> _Part:
    rights = [Right(operation, "topic", name, job.spec.sink_cluster) for name in topics]
    listed = ", ".join(f"{operation} on topic {name}" for name in topics)
    return _Part(reason, f"the job's Kafka user lacks {listed}", effect, grants(rights))


def _few_copies(name: str, copies: tuple[int, ...]) -> str:
    number = copies.count(1)
    where = "" if number == len(copies) else f" of {number} of its {len(copies)} partitions"
    return f"topic {name} has one copy{where}"


def _commands(job: Job, few: dict[str, tuple[int, ...]], alone: list[str]) -> list[str]:
    servers = f"--bootstrap-server {job.spec.sink_cluster.bootstrap_servers}"
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
