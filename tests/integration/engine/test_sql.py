"""A narrow query through both engines: exactly once over a crash, with the same records and dead letters."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

QUERY = (
    "SELECT CAST(key AS STRING) AS key, to_json(struct(value.n, value.d, topic)) AS value FROM source"
    " WHERE value.n <> 7 AND (value.d >= 0.5 OR value.d IS NULL)"
)
TEXTS = (
    (b"0.25", None), (b"2e23", b',"d":1.9999999999999998E23'), (b"null", b""), (b"0.5", b',"d":0.5'),
    (b"NaN", b',"d":"NaN"'),
)  # fmt: skip
"""A number, and what is written of it; 2e23 has the digits of Java 17."""


def test_sql_over_json_in_both_engines(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    job = local_job(
        engine=Engine.CONTINUOUS, transform=Transform(sql=QUERY), on_record_error=OnRecordError.DEAD_LETTER,
        value_format=Format.JSON, value_schema="n BIGINT, d DOUBLE", max_offsets=200,
    )  # fmt: skip
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    producer = Producer({"bootstrap.servers": broker})
    good: list[tuple[bytes, bytes]] = []
    bad: list[bytes] = []

    def write(first: int, count: int) -> None:
        for n in range(first, first + count):
            key = b"k%d" % n
            if n % 10 == 3:
                bad.append(b'{"n":%d.5}' % n)
                producer.produce(source, key=key, value=bad[-1])
                continue
            d, written = TEXTS[n % len(TEXTS)]
            producer.produce(source, key=key, value=b'{"n":%d,"d":%s}' % (n, d))
            if n != 7 and written is not None:
                good.append((key, b'{"n":%d%s,"topic":"%s"}' % (n, written, source.encode())))
        assert producer.flush(30) == 0

    write(0, 600)
    job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    write(600, 200)
    job.start()
    job.await_records_in(800)
    assert job.drain() == 0, job.log()
    job.spec = replace(job.spec, engine=Engine.AUTO)
    write(800, 200)
    job.start(parallelism=3)
    job.await_records_in(1000)
    assert "the Continuous engine has started: spec.engine is Auto" in job.log(1000)
    assert job.drain() == 0, job.log()
    job.spec = replace(job.spec, engine=Engine.MICRO_BATCH)
    write(1000, 400)
    job.start(parallelism=2)
    job.await_records_in(1400)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    found = Counter((message.key(), message.value()) for message in visibility.messages(broker, sink))
    assert found == Counter(good)
    letters = visibility.messages(broker, job.spec.record_errors.dead_letter_topic)
    assert Counter(message.value() for message in letters) == Counter(bad)
