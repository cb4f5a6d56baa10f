"""The job of ``kafkaspark dev --bootstrap``: its names, and which lines of its log are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkaspark.dev.attempts import shown_line
from kafkaspark.dev.broker_job import broker_job
from kafkaspark.local.project import judged
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spec import Job
from tests.support.kubernetes.operator_fixture import KEY, job_body

DLQ = {"onRecordError": "DeadLetter", "deadLetter": {"topic": "dead"}}
SQL = {"sql": {"query": "SELECT topic, value FROM source"}}
JSON = {"topics": ["orders"], "format": {"value": "json", "valueSchema": "id BIGINT"}}


def job(**spec: Any) -> Job:
    return judged(job_body(**spec), "default")[1]


def on_broker(given: Job, *, as_is: bool = False, writes_source: bool = False) -> Job:
    return broker_job(given, bootstrap="127.0.0.1:9092", as_is=as_is, writes_source=writes_source)


def test_no_name_is_that_of_the_job_in_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "ann")
    given = job(source=JSON, kafka={"bootstrapServers": "prod:9093", "tls": {}}, **DLQ)
    spec = on_broker(given).spec
    name = f"dev.ann.{KEY.namespace}.{KEY.name}"
    assert (spec.source.group_id, spec.sink.transactional_id_prefix) == (name, name)
    assert (spec.sink.topic, spec.record_errors.dead_letter_topic) == ("enriched-dev", "dead-dev")
    assert (spec.kafka.bootstrap_servers, spec.kafka.tls, spec.metrics_port) == ("127.0.0.1:9092", None, 0)
    assert spec.source.topics == ("orders",)


def test_records_of_a_file_are_written_to_topics_of_the_developer() -> None:
    assert on_broker(job(), writes_source=True).spec.source.topics == ("orders-dev",)
    partitions = on_broker(job(source={"partitions": [{"topic": "a", "partitions": [1]}]}), writes_source=True)
    assert [str(each) for each in partitions.spec.source.partitions] == ["a-dev-1"]
    with pytest.raises(ConfigurationError, match=r"source\.topicPattern names none"):
        on_broker(job(source={"topicPattern": "a.*"}), writes_source=True)


def test_as_is_writes_to_the_jobs_topics() -> None:
    spec = on_broker(job(source=JSON, **DLQ), as_is=True, writes_source=True).spec
    assert (spec.source.topics, spec.sink.topic, spec.record_errors.dead_letter_topic) == (
        ("orders",),
        "enriched",
        "dead",
    )
    assert spec.source.group_id.startswith("dev.")


def test_topics_of_the_transform_need_a_word() -> None:
    routed = job(sink={"topic": "out", "topicFrom": "Column"}, transform=SQL)
    with pytest.raises(ConfigurationError, match="the transform chooses topics") as refused:
        on_broker(routed)
    assert "--as-is" in refused.value.remedy
    assert on_broker(routed, as_is=True).spec.sink.topic_from is routed.spec.sink.topic_from


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (json.dumps({"level": "INFO", "message": "checked"}), ""),
        (json.dumps({"level": "WARNING", "message": "slow"}), "WARNING: slow"),
        ("printed by the transform", "printed by the transform"),
        ('{"id": 1}', '{"id": 1}'),
        ("17", "17"),
    ],
)
def test_warnings_and_prints_are_shown(line: str, shown: str) -> None:
    assert shown_line(line) == shown
