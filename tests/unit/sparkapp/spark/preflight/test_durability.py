"""One broker's outage: which topics of a job's transactions it can stop or lose, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sparkapp.clients.topics.topic_facts import TopicFacts
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.model.event_reason import DriverEvent, Durability
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.spec import Job
from sparkapp.model.report import MAX_MESSAGE
from sparkapp.spark.preflight.durability import find_durability, judge, show_durability
from tests.support.jobs.plain_job import plain_spec

OFFSETS = "__consumer_offsets"
SPEC = plain_spec(
    kafka=KafkaCluster(bootstrap_servers="b:9092"),
    record_errors=RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="bad"),
)
JOB = Job(namespace="n", name="job", uid="u", generation=1, attempt=3, spec=SPEC)
TOPICS = ["out", "bad", OFFSETS]
ALL = frozenset({"READ", "WRITE", "DESCRIBE"})


def cluster_of(copies: int = 3, in_sync: str = "2") -> tuple[dict[str, TopicFacts], dict[str, str]]:
    """Every topic with this many copies of each of two partitions."""
    return {name: TopicFacts((copies, copies), ALL) for name in TOPICS}, dict.fromkeys(TOPICS, in_sync)


@dataclass
class Topics:
    """A cluster with these answers; a fake."""

    known: dict[str, TopicFacts]
    in_sync: dict[str, str]
    asked: list[list[str]] = field(default_factory=list)
    appears: Mapping[str, TopicFacts] = field(default_factory=dict)
    """Known from the second question on."""
    error: Exception | None = None

    def facts(self, topics: Iterable[str]) -> dict[str, TopicFacts]:
        if self.error is not None:
            raise self.error
        self.asked.append(list(topics))
        found = {name: self.known[name] for name in topics if name in self.known}
        self.known |= self.appears
        return found

    def topic_setting(self, name: str, topics: Iterable[str]) -> dict[str, str]:
        assert name == "min.insync.replicas"
        return {topic: self.in_sync[topic] for topic in topics if topic in self.in_sync}


class Shown:
    """Status and events, as the reporter gets them; a fake."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.events: list[tuple[DriverEvent, str]] = []

    def update(self, **changes: Any) -> None:
        self.fields |= changes

    def warn(self, reason: DriverEvent, message: str) -> None:
        self.events.append((reason, message))


def test_three_copies_of_which_two_are_in_sync_need_no_word() -> None:
    assert judge(JOB, TOPICS, *cluster_of()) == (Durability.REPLICATED, "", "")
    assert judge(JOB, TOPICS, *cluster_of(copies=2)) == (Durability.REPLICATED, "", "")


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("in_sync", ["1", "2", None])
def test_one_copy_of_any_topic_is_named_with_what_an_outage_does(topic: str, in_sync: str | None) -> None:
    facts, settings = cluster_of()
    facts[topic] = TopicFacts((1, 1), ALL)
    settings = {name: value for name, value in {**settings, topic: in_sync}.items() if value is not None}
    found = judge(JOB, TOPICS, facts, settings)
    assert found.reason is Durability.NOT_REPLICATED
    assert found.message.startswith(f"attempt 3 found: topic {topic} has one copy. While the broker of the only copy")
    assert "no transaction can end there. Readers of the partition wait" in found.message
    assert "If the broker's disk is lost, committed records and offsets are lost" in found.message
    assert "kafka-reassign-partitions.sh --bootstrap-server b:9092 --execute" in found.message
    assert f'{{"topic":"{topic}","partition":0,"replicas":[1,2,3]}}' in found.message
    assert (f"--entity-name {topic} --add-config min.insync.replicas=2" in found.message) is (in_sync == "1")
    assert found.event == (
        "an outage of one broker is a risk for transactions, see condition TransactionsDurable:"
        f" topic {topic} has one copy"
    )


def test_one_partition_with_one_copy_is_enough() -> None:
    facts, settings = cluster_of()
    facts["out"] = TopicFacts((3, 3, 1, 3), ALL)
    found = judge(JOB, TOPICS, facts, settings)
    assert "topic out has one copy of 1 of its 4 partitions" in found.event
    assert '{"topic":"out","partition":2,"replicas":[1,2,3]}' in found.message


@pytest.mark.parametrize("topic", TOPICS)
def test_copies_of_which_one_is_enough_are_named(topic: str) -> None:
    facts, settings = cluster_of()
    found = judge(JOB, TOPICS, facts, {**settings, topic: "1"})
    assert found.reason is Durability.NOT_REPLICATED
    assert f"min.insync.replicas of topic {topic} is 1" in found.event
    command = "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics"
    assert found.message.endswith(f"Fix: {command} --entity-name {topic} --add-config min.insync.replicas=2")


def test_settings_that_the_user_may_not_read_are_unknown_and_no_warning() -> None:
    facts, settings = cluster_of()
    del settings["out"], settings[OFFSETS]
    grant = "kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:USER --operation DescribeConfigs"
    assert judge(JOB, TOPICS, facts, settings) == (
        Durability.SETTINGS_UNKNOWN,
        "attempt 3 found: the job's Kafka user lacks DESCRIBE_CONFIGS on topic out,"
        f" DESCRIBE_CONFIGS on topic {OFFSETS}. It is unknown how many copies are in sync."
        f" Fix: {grant} --topic out; {grant} --topic {OFFSETS}",
        "",
    )


def test_a_topic_of_offsets_that_does_not_exist_yet_is_unknown() -> None:
    facts, settings = cluster_of()
    del facts[OFFSETS], settings[OFFSETS]
    found = judge(JOB, TOPICS, facts, settings)
    assert found == (
        Durability.SETTINGS_UNKNOWN,
        f"attempt 3 found: topic {OFFSETS} does not exist yet. It is unknown how many copies are in sync",
        "",
    )


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("operations", [frozenset({"WRITE", "DESCRIBE"}), frozenset()])
def test_a_leader_that_the_user_may_not_ask_is_a_warning_with_the_command(
    topic: str, operations: frozenset[str]
) -> None:
    """A topic that the user may not even describe has no copies in the answer."""
    facts, settings = cluster_of()
    facts[topic] = TopicFacts((3, 3) if operations else (), operations)
    found = judge(JOB, TOPICS, facts, settings)
    assert found.reason is Durability.ENDS_NOT_PROVEN
    lacks = f"the job's Kafka user lacks READ on topic {topic}"
    assert found.message.startswith(f"attempt 3 found: {lacks}. The driver cannot ask leaders")
    assert "the end of a transaction there is not proven" in found.message
    assert found.message.endswith(f"--add --allow-principal User:USER --operation Read --topic {topic}")
    assert found.event.endswith(f"see condition TransactionsDurable: {lacks}")


def test_brokers_that_do_not_say_what_is_allowed_are_believed() -> None:
    facts, settings = cluster_of()
    facts["out"] = TopicFacts((3, 3), None)
    assert judge(JOB, TOPICS, facts, settings).reason is Durability.REPLICATED


def test_everything_that_is_wrong_is_said_at_once() -> None:
    facts, settings = cluster_of()
    facts["out"] = TopicFacts((1,), frozenset({"WRITE"}))
    del settings["bad"]
    found = judge(JOB, TOPICS, facts, settings)
    assert found.reason is Durability.NOT_REPLICATED
    for cause in ("topic out has one copy", "; also: the job's Kafka user lacks READ on topic out"):
        assert cause in found.message
        assert cause.removeprefix("; also: ") in found.event
    assert "; also: the job's Kafka user lacks DESCRIBE_CONFIGS on topic bad" in found.message
    assert "DESCRIBE_CONFIGS" not in found.event


def test_the_topic_of_offsets_of_a_new_cluster_is_waited_for() -> None:
    facts, settings = cluster_of()
    cluster = Topics(facts, settings, appears={OFFSETS: TopicFacts((1,), ALL)})
    del facts[OFFSETS]
    assert f"topic {OFFSETS} has one copy" in find_durability(JOB, cluster).event
    assert cluster.asked == [TOPICS, TOPICS]


def test_a_job_without_offsets_does_not_ask_for_theirs() -> None:
    spec = replace(SPEC, source=replace(SPEC.source, offset_commit=OffsetCommit.DISABLED), record_errors=RecordErrors())
    cluster = Topics(*cluster_of())
    assert find_durability(replace(JOB, spec=spec), cluster).reason is Durability.REPLICATED
    assert cluster.asked == [["out"]]


def test_status_and_one_event_show_it() -> None:
    shown = Shown()
    show_durability(JOB, Topics(*cluster_of(copies=1, in_sync="1")), shown).result(10)
    assert shown.fields["durability"] is Durability.NOT_REPLICATED
    ((reason, message),) = shown.events
    assert reason is DriverEvent.TRANSACTIONS_NOT_DURABLE
    assert len(message) < MAX_MESSAGE


def test_the_longest_names_are_shown_whole() -> None:
    names = [letter * 249 for letter in "ab"] + [OFFSETS]
    facts = {name: TopicFacts((1,), ALL) for name in names}
    found = judge(JOB, names, facts, dict.fromkeys(names, "1"))
    assert len(found.message) < 4 * MAX_MESSAGE


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.NONE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_job_without_transactions_asks_nothing(guarantee: DeliveryGuarantee) -> None:
    job = replace(JOB, spec=replace(SPEC, sink=replace(SPEC.sink, delivery_guarantee=guarantee)))
    shown, cluster = Shown(), Topics(*cluster_of(copies=1))
    show_durability(job, cluster, shown).result(10)
    assert (shown.fields, shown.events, cluster.asked) == ({}, [], [])


def test_brokers_that_do_not_answer_stop_no_start_and_nothing_is_said() -> None:
    shown = Shown()
    show_durability(JOB, Topics({}, {}, error=KafkaUnreachable("no broker answers")), shown).result(10)
    assert (shown.fields, shown.events) == ({}, [])
