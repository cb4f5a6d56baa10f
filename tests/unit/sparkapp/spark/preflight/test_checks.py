"""What is wrong with the spec's client properties ends the attempt before a broker, the state or Spark is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import AuthorizationFailed, TopicNotFound, TransactionTimeoutTooLong
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.source import OnTopicDeleted
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job
from sparkapp.model.report import AttemptOutcome
from sparkapp.spark.driver import Driver
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.preflight import checks
from sparkapp.spark.preflight.checks import check_kafka
from sparkapp.spark.preflight.job_clusters import JobClusters
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.plain_job import plain_spec

SPEC = plain_spec(kafka=KafkaCluster(bootstrap_servers="127.0.0.1:1"))


def around(folder: Path) -> DriverEnvironment:
    """What a driver has around it, without Spark."""
    return DriverEnvironment(
        store=MemoryStore(), retained=MemoryRetainedStore(),
        write_report=lambda _: None, open_session=pytest.fail, close_session=lambda _: None,
        folder=folder, stateful_allowed=False, credentials=folder,
    )  # fmt: skip


@pytest.mark.parametrize("side", ["source", "sink"])
def test_D15_an_unknown_client_property_ends_the_job_with_its_name(tmp_path: Path, side: str) -> None:
    of_side = replace(getattr(SPEC, side), properties={"fetch.min.byte": "1"})
    job = Job(
        namespace="n", name="job", uid="u", generation=1, attempt=1, spec=replace(SPEC, **{side: of_side})
    )  # fmt: skip
    environment = around(tmp_path)
    said = Driver(job, environment).run()
    assert (said.outcome, said.reason, said.fatal) == (AttemptOutcome.FAILED, "InvalidSpec", True)
    assert said.message.startswith(f"spec.{side}.properties: fetch.min.byte: No such configuration property")
    assert "CONFIGURATION.md" in said.remedy
    assert environment.store.read().text is None


@pytest.mark.parametrize("topic", ["in", "out"])
@pytest.mark.parametrize("deleted", OnTopicDeleted)
def test_D16_a_topic_that_may_not_be_described_is_not_reported_as_missing(topic: str, deleted: OnTopicDeleted) -> None:
    spec = replace(
        SPEC, source=replace(SPEC.source, on_topic_deleted=deleted),
        sink=replace(SPEC.sink, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE),
    )  # fmt: skip
    job = Job(namespace="n", name="job", uid="u", generation=1, attempt=1, spec=spec)
    view = FakeCluster({"in": 1, "out": 1})
    check_kafka(job, JobClusters(view, view))
    view.denied = {topic}
    with pytest.raises(AuthorizationFailed, match=f"topic {topic}"):
        check_kafka(job, JobClusters(view, view))


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        (("in", "bad"), "sink topic 'out' does not exist"),
        (("out", "bad"), "source topic 'in' does not exist"),
        (("in", "out"), "dead letter topic 'bad' does not exist"),
        ((), "source topic 'in' and sink topic 'out' and dead letter topic 'bad' do not exist"),
    ],
)
def test_a_missing_topic_is_named_with_its_part_in_the_job(
    topics: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_YOUNG_SECONDS", 0.0)
    record_errors = RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="bad")
    spec = replace(SPEC, record_errors=record_errors)
    job = Job(namespace="n", name="job", uid="u", generation=1, attempt=1, spec=spec)
    view = FakeCluster(dict.fromkeys(topics, 1))
    with pytest.raises(TopicNotFound) as raised:
        check_kafka(job, JobClusters(view, view))
    assert raised.value.message == f"{message} on Kafka brokers"


@pytest.mark.parametrize(
    ("source", "sink", "message"),
    [
        (("in",), ("out", "bad"), ""),
        (("in", "out", "bad"), ("bad",), "sink topic 'out' does not exist"),
        (("in", "out", "bad"), ("in", "out"), "dead letter topic 'bad' does not exist"),
        (("out",), ("in", "out", "bad"), "source topic 'in' does not exist"),
    ],
)
def test_each_topic_is_looked_for_on_its_cluster(
    source: tuple[str, ...], sink: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_YOUNG_SECONDS", 0.0)
    record_errors = RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="bad")
    spec = replace(SPEC, record_errors=record_errors)
    job = Job(namespace="n", name="job", uid="u", generation=1, attempt=1, spec=spec)
    clusters = JobClusters(FakeCluster(dict.fromkeys(source, 1)), FakeCluster(dict.fromkeys(sink, 1)))
    if not message:
        check_kafka(job, clusters)
        return
    with pytest.raises(TopicNotFound, match=message):
        check_kafka(job, clusters)


class Cluster(FakeCluster):
    """Brokers that have topics, and no more to say."""

    def cluster_id(self) -> str:
        return "c"

    def facts(self, _: object) -> dict[str, object]:
        return {}

    def topic_setting(self, *_: object) -> dict[str, str]:
        return {}

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "reason", "parts"),
    [
        ("def transform(frame):\n    return frame\n", "TopicNotFound", ["source topic 'in' does not exist"]),
        ("def transform(frame)\n", "InvalidTransform", ["SyntaxError", "mine.py, line 1", "source topic 'in' does"]),
    ],
)
def test_a_missing_topic_does_not_hide_an_error_of_the_code(
    code: str, reason: str, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"mine_{len(code)}"
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.setattr(checks, "_YOUNG_SECONDS", 0.0)
    monkeypatch.setattr(checks, "check_rights", lambda *_: None)
    view = Cluster({"out": 1})
    monkeypatch.setattr(JobClusters, "opened", lambda *_: JobClusters(view, view))
    spec = replace(
        SPEC, transform=Transform(function=f"{module}:transform"),
        sink=replace(SPEC.sink, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE),
    )  # fmt: skip
    said = Driver(Job(namespace="n", name="job", uid="u", generation=1, attempt=1, spec=spec), around(tmp_path)).run()
    assert said.reason == reason
    for part in parts:
        assert part.replace("mine", module) in said.message
    assert "create the topic" in said.remedy
    assert ("correct spec.transform" in said.remedy) == said.fatal == (reason == "InvalidTransform")


@pytest.mark.parametrize("seconds", [901, 0])
def test_the_broker_that_allows_least_decides_and_the_remedy_can_be_typed(seconds: int) -> None:
    spec = replace(SPEC, sink=replace(SPEC.sink, transaction_timeout_seconds=seconds))
    job = Job(namespace="n", name="job", uid="u", generation=1, attempt=1, spec=spec)
    view = FakeCluster({"in": 1, "out": 1})
    for view.settings in ({}, {1: "2147483647", 2: "2147483647"}):
        check_kafka(job, JobClusters(view, view))
    view.settings = {1: "2147483647", 2: "900000"}
    with pytest.raises(TransactionTimeoutTooLong) as raised:
        check_kafka(job, JobClusters(view, view))
    if not seconds:
        assert (
            "timeoutSeconds 0 needs transaction.max.timeout.ms=2147483647 on every broker: it is 900000"
            in raised.value.message
        )
        assert "add transaction.max.timeout.ms=2147483647 to server.properties of every broker" in raised.value.remedy
        assert (
            """-n n --type merge -p '{"spec":{"sink":{"transactions":{"timeoutSeconds":900}}}}'"""
            in raised.value.remedy
        )
    else:
        assert "set spec.sink.transactions.timeoutSeconds to at most 900" in raised.value.remedy
