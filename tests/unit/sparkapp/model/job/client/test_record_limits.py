"""Limits of the client by those of the topics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparkapp.model.job.client.record_limits import (
    BROKERS_DEFAULT,
    MOST_BYTES,
    UNKNOWN_BYTES,
    letter_limit,
    producer_limits,
)
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.sink import Sink, TopicFrom
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec


def job(limits: Mapping[str, int], *, letters: str = "", **sink: object) -> Job:
    policy = OnRecordError.DEAD_LETTER if letters else OnRecordError.FAIL
    return Job(
        namespace="n", name="j", uid="u", generation=1, attempt=1, record_limits=limits,
        spec=JobSpec(
            kafka=KafkaCluster(bootstrap_servers="b:1"), source=Source(topics=("in",), group_id="g"),
            transform=Transform(), sink=Sink(topic="out", transactional_id_prefix="p", **sink),  # type: ignore[arg-type]
            record_errors=RecordErrors(policy=policy, dead_letter_topic=letters),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "letters", "sink", "largest", "batch"),
    [
        ({"out": BROKERS_DEFAULT}, "", {}, BROKERS_DEFAULT + 1024, None),
        ({"out": 20 << 20}, "", {}, (20 << 20) + 1024, None),
        ({"out": 1 << 30}, "", {}, MOST_BYTES, None),
        ({"out": 5000}, "", {}, BROKERS_DEFAULT + 1024, "5000"),
        ({"out": 5000, "letters": 20 << 20}, "letters", {}, (20 << 20) + 1024, "5000"),
        ({"out": 5000}, "letters", {}, UNKNOWN_BYTES, "5000"),
        ({"out": 50 << 20}, "letters", {}, (50 << 20) + 1024, None),
        ({}, "", {}, UNKNOWN_BYTES, None),
        ({"out": BROKERS_DEFAULT}, "", {"topic_from": TopicFrom.COLUMN}, UNKNOWN_BYTES, None),
        ({"out": BROKERS_DEFAULT}, "", {"properties": {"compression.type": "zstd"}}, UNKNOWN_BYTES, None),
        ({"out": BROKERS_DEFAULT}, "", {"properties": {"compression.type": "none"}}, BROKERS_DEFAULT + 1024, None),
        ({"out": 0}, "", {}, BROKERS_DEFAULT + 1024, "1"),
    ],
)  # fmt: skip
def test_the_client_takes_what_a_topic_takes(
    limits: Mapping[str, int], letters: str, sink: dict[str, object], largest: int, batch: str | None
) -> None:
    found = producer_limits(job(limits, letters=letters, **sink))
    assert found == {"message.max.bytes": str(largest)} | ({} if batch is None else {"batch.size": batch})


def test_a_letter_may_be_as_large_as_its_topic_and_the_users_own_limit_allow() -> None:
    assert letter_limit(job({}, letters="letters")) == BROKERS_DEFAULT
    assert letter_limit(job({"out": 7}, letters="letters")) == BROKERS_DEFAULT
    assert letter_limit(job({"letters": 20_000}, letters="letters")) == 20_000
    own = {"message.max.bytes": "9000"}
    assert letter_limit(job({"letters": 20_000}, letters="letters", properties=own)) == 9000
    assert letter_limit(job({"letters": 1 << 30}, letters="letters")) == MOST_BYTES
