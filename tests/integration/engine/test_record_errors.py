"""Records that do not parse among good records: each policy by what readers of sink and dead letters see."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from localcluster.kubernetes.pki import Authority
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.access.registry_access import (
    RegistryAccess,
    RegistryAuthentication,
    RegistryAuthenticationType,
)
from sparkapp.model.job.access.security import PasswordSecret, Tls, TrustedCertificate
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.transform import Transform
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility
from tests.support.kafka.schema_registry import basic, framed, framed_protobuf, registry

pytestmark = pytest.mark.spark

DEAD_LETTER, SKIP = OnRecordError.DEAD_LETTER, OnRecordError.SKIP
JSON = {"value_format": Format.JSON, "value_schema": "n BIGINT, s STRING"}
PASSWORD = "registry-pa55word"
NUMBERS = Transform(sql="SELECT key, CAST(value.n AS STRING) AS value FROM source")
BAD = (b"{", b"", b"  ", b'{"n": "seven"}', b"[1]", b"7", b"null", b"\xff\xfe", b'{"n": 1, "s": ', b"plain text")
"""Not JSON, not an object, not of the schema, not even text."""


def write(broker: str, topic: str, first: int, count: int, *, bad_every: int) -> list[tuple[bytes, bytes]]:
    """Numbers as JSON with bad records among them. Returns keys and values of the bad records."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    bad = []
    for number in range(first, first + count):
        key, value = b"\x00k%d" % number, json.dumps({"n": number}).encode()
        if number % bad_every == bad_every - 1:
            value = BAD[number // bad_every % len(BAD)]
            bad.append((key, value))
        producer.produce(topic, key=key, value=value, headers=[("trace", b"%d" % number)])
    assert producer.flush(30) == 0
    return bad


def good(first: int, count: int, *, bad_every: int) -> list[int]:
    return [number for number in range(first, first + count) if number % bad_every != bad_every - 1]


def letters(broker: str, job: LocalJob) -> list[Message]:
    return visibility.messages(broker, job.spec.record_errors.dead_letter_topic)


def records_of(found: list[Message]) -> Counter[tuple[bytes, bytes]]:
    return Counter((message.key(), message.value()) for message in found)


def crash(job: LocalJob, broker: str, bad: list[tuple[bytes, bytes]]) -> None:
    """Awaits the end of an attempt that kills itself: no letter is there twice."""
    assert job.await_end() == -signal.SIGKILL, job.log()
    seen = letters(broker, job)
    assert max(records_of(seen).values(), default=0) <= 1
    assert len(seen) < len(bad)


def test_fail_names_the_record_and_commits_nothing(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(transform=NUMBERS, partitions=1, parallelism=1, **JSON)
    write(broker, job.spec.source.topics[0], 0, 100, bad_every=40)
    job.start()
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("RecordError", True), job.log()
    assert f"topic {job.spec.source.topics[0]}, partition 0, offset 39: the value is not JSON" in termination.message
    assert "n BIGINT" in termination.message
    assert "onRecordError" in termination.remedy
    assert visibility.records(broker, job.spec.sink.topic) == []


def test_skip_works_with_a_shuffle(local_job: LocalJobs, broker: str) -> None:
    query = "SELECT /*+ REPARTITION(2, value) */ key, CAST(value.n AS STRING) AS value FROM source"
    job = local_job(transform=Transform(sql=query), on_record_error=SKIP, **JSON)
    bad = write(broker, job.spec.source.topics[0], 0, 500, bad_every=5)
    job.start()
    counters = job.await_records_in(500).counters
    assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == good(0, 500, bad_every=5)
    assert counters.records_skipped == len(bad)


@pytest.mark.parametrize("delivery_guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_dead_letters_are_the_records_as_they_were(
    delivery_guarantee: DeliveryGuarantee, local_job: LocalJobs, broker: str
) -> None:
    job = local_job(
        transform=NUMBERS, on_record_error=DEAD_LETTER, delivery_guarantee=delivery_guarantee, max_offsets=400, **JSON
    )
    source = job.spec.source.topics[0]
    bad = write(broker, source, 0, 1000, bad_every=7)
    null = Producer({"bootstrap.servers": broker})
    null.produce(source, key=b"null", value=None)
    assert null.flush(30) == 0
    job.start()
    counters = job.await_records_in(1001).counters
    assert job.drain() == 0
    out = visibility.records(broker, job.spec.sink.topic)
    assert sorted(int(value) for value in out if value is not None) == good(0, 1000, bad_every=7)
    assert out.count(None) == 1  # a null is no error
    found = letters(broker, job)
    assert records_of(found) == Counter(bad)
    by_place = {(message.partition(), message.offset()): message for message in visibility.messages(broker, source)}
    for message in found:
        headers = dict(message.headers())
        place = int(headers["kafkaspark.error.partition"]), int(headers["kafkaspark.error.offset"])
        original = by_place[place]
        assert headers["kafkaspark.error.topic"].decode() == source
        assert (message.key(), message.value()) == (original.key(), original.value())
        assert headers["trace"] == dict(original.headers())["trace"]
        assert int(headers["kafkaspark.error.timestamp"]) == original.timestamp()[1]
        assert headers["kafkaspark.error.stage"] == b"VALUE_DECODER"
        assert b"not JSON" in headers["kafkaspark.error.exception.message"]
    assert (counters.records_out, counters.records_dead_lettered) == (1001 - len(bad), len(bad))
    assert counters.records_skipped == 0


def test_a_key_that_does_not_parse_is_an_error_too(local_job: LocalJobs, broker: str) -> None:
    job = local_job(
        transform=Transform(sql="SELECT CAST(key.n AS STRING) AS value FROM source"), on_record_error=DEAD_LETTER,
        key_format=Format.JSON, key_schema="n INT",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": broker})
    for key in (b'{"n": 1}', b"one", b'{"n": 2}', None):
        producer.produce(job.spec.source.topics[0], key=key, value=b"v")
    assert producer.flush(30) == 0
    job.start()
    job.await_records_in(4)
    assert job.drain() == 0
    assert sorted(str(value) for value in visibility.records(broker, job.spec.sink.topic)) == ["None", "b'1'", "b'2'"]
    (letter,) = letters(broker, job)
    assert letter.key() == b"one"
    assert dict(letter.headers())["kafkaspark.error.stage"] == b"KEY_DECODER"


@pytest.mark.parametrize("hint", ["", "/*+ REPARTITION(2, key) */"])
def test_a_letter_of_one_side_has_the_other_side_as_it_was(hint: str, local_job: LocalJobs, broker: str) -> None:
    """Also where letters are read apart, and where readers have decoded the side that parses."""
    query = f"SELECT {hint} CAST(key.n AS STRING) AS key, CAST(value.n AS STRING) AS value FROM source"
    job = local_job(
        transform=Transform(sql=query), on_record_error=DEAD_LETTER, key_format=Format.JSON, key_schema="n INT", **JSON,
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": broker})
    bad = [(b'{ "n":3}', b"no JSON"), (b"no JSON", b'{"n": 4 }'), (b"{", b"")]
    for key, value in [(b'{"n": 1}', b'{"n":2, "s": "a"}')] * 200 + bad:
        producer.produce(job.spec.source.topics[0], key=key, value=value)
    assert producer.flush(30) == 0
    job.start()
    job.await_records_in(203)
    assert job.drain() == 0
    assert visibility.numbers(broker, job.spec.sink.topic) == [2] * 200
    found = letters(broker, job)
    assert records_of(found) == Counter(bad)
    stages = {message.value(): dict(message.headers())["kafkaspark.error.stage"] for message in found}
    assert [stages[value] for _, value in bad] == [b"VALUE_DECODER", b"KEY_DECODER", b"VALUE_DECODER"]


def test_a_checkpoint_of_nothing_but_bad_records(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    job = local_job(transform=NUMBERS, on_record_error=DEAD_LETTER, parallelism=1, **JSON)
    source = job.spec.source.topics[0]
    bad = write(broker, source, 0, 50, bad_every=1)
    job.start()
    document = job.await_records_in(50)
    (committable,) = document.committables
    assert (committable.records, committable.dead_letters) == (0, 50)
    more = write(broker, source, 50, 50, bad_every=10)
    job.await_records_in(100)
    assert job.drain() == 0
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == good(50, 50, bad_every=10)
    assert records_of(letters(broker, job)) == Counter(bad + more)


_IMPATIENT = """
def first_batch(batches):
    yield next(batches)

def transform(source):
    return source.select("key", "value.n").mapInArrow(first_batch, "key BINARY, n BIGINT").selectExpr(
        "key", "CAST(n AS STRING) AS value")
"""


def test_a_transform_that_stops_early_does_not_lose_dead_letters_silently(
    local_job: LocalJobs, broker: str, tmp_path: Path
) -> None:
    """A transform that reads on is right; a transform that leaves records unread is refused."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "impatient.py").write_text(_IMPATIENT)
    job = local_job(
        transform=Transform(function="impatient:transform"), code=code, parallelism=1, partitions=1,
        on_record_error=DEAD_LETTER, **JSON,
    )  # fmt: skip
    bad = write(broker, job.spec.source.topics[0], 0, 60_000, bad_every=3)
    job.start()
    process = job.process
    assert process is not None
    while process.poll() is None and not getattr(job.document(), "checkpoint_id", 0):
        time.sleep(0.2)
    if process.poll() is None:
        assert job.drain() == 0
        assert records_of(letters(broker, job)) == Counter(bad)
    else:
        termination = job.termination()
        assert termination is not None
        assert termination.reason == "InvalidTransform"
        assert letters(broker, job) == []


def test_avro_of_several_writers_with_bad_records_among_them(
    local_job: LocalJobs, broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    """Decoded columns, logical types and dead letters through the real engine, with a crash between.

    The registry wants a user and has a private authority; its secret is in no description, log or document.
    """
    first = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    second = {
        "type": "record", "name": "R",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
            {"name": "n", "type": "long"},
            {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        ],
    }  # fmt: skip
    authority = Authority(tmp_path / "pki", tmp_path / "pki.log")
    certificate = authority.issue("registry", "/CN=registry", ["IP:127.0.0.1"])
    secrets = tmp_path / "secrets"
    (secrets / "user").mkdir(parents=True)
    (secrets / "user/password").write_text(PASSWORD)
    (secrets / "ca-0").mkdir()
    (secrets / "ca-0/ca.crt").write_bytes(authority.pair.certificate.read_bytes())
    who = RegistryAuthentication(
        type=RegistryAuthenticationType.BASIC, username="orders", password_secret=PasswordSecret(secret_name="orders")
    )
    tls = Tls(trusted_certificates=(TrustedCertificate(secret_name="ca", certificate="ca.crt"),))
    with registry(authorization=basic("orders", PASSWORD), certificate=certificate) as server:
        access = RegistryAccess(url=server.url, authentication=who, tls=tls, directory=str(secrets))
        job = local_job(
            transform=Transform(
                sql="SELECT CONCAT_WS(',', value.n, DATE_FORMAT(value.at, 'yyyy'), value.tags['a']) AS value"
                " FROM source"
            ),
            on_record_error=DEAD_LETTER, value_format=Format.AVRO, schema_registry=access, max_offsets=200,
        )  # fmt: skip
        source = job.spec.source.topics[0]
        old = server.register(f"{source}-value", first)
        new = server.register(f"{source}-value", second)
        producer = Producer({"bootstrap.servers": broker})
        expected, bad = [], []
        for number in range(600):
            key = b"k%d" % number
            if number % 3 == 0:
                value, text = framed(old, first, {"n": number}), f"{number},1970"
            elif number % 3 == 1:
                record = {"n": number, "at": datetime(2026, 1, 2, tzinfo=UTC), "tags": {"a": "x"}}
                value, text = framed(new, second, record), f"{number},2026,x"
            else:
                kinds = (b"plain", b"\x00\x00\x00\x00\x63\x02", framed(new, first, {"n": number}))
                value, text = kinds[number % 9 // 3], ""
                bad.append((key, value))
            if text:
                expected.append(text)
            producer.produce(source, key=key, value=value)
        assert producer.flush(30) == 0
        job.start(fault="after-flush@attempt=1,checkpoint=2")
        crash(job, broker, bad)
        job.start(parallelism=1)
        counters = job.await_records_in(600).counters
        assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    values = [(value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic)]
    assert sorted(values) == sorted(expected)
    assert records_of(letters(broker, job)) == Counter(bad)
    assert (counters.records_out, counters.records_dead_lettered) == (400, 200)
    encoded = basic("orders", PASSWORD).split()[1]
    for file in job.folder.glob("*-*"):
        if file.is_file():
            text = file.read_text(errors="replace")
            assert PASSWORD not in text, file.name
            assert encoded not in text, file.name
    assert PASSWORD not in job.state_file.read_text()


def test_protobuf_with_bad_records_among_them(local_job: LocalJobs, broker: str) -> None:
    order = text_format.Parse(
        'name: "order.proto" package: "shop" syntax: "proto3" message_type { name: "Order" '
        'field { name: "n" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }',
        FileDescriptorProto(),
    )
    with registry() as server:
        job = local_job(
            transform=NUMBERS, on_record_error=SKIP, value_format=Format.PROTOBUF, schema_registry=server.access
        )
        source = job.spec.source.topics[0]
        number = server.register_protobuf(f"{source}-value", order)
        producer = Producer({"bootstrap.servers": broker})
        for value in range(1, 101):
            producer.produce(source, key=b"k%d" % value, value=framed_protobuf(number, bytes((8, value))))
            if value % 10 == 0:
                producer.produce(source, key=b"bad", value=framed_protobuf(number, b"\x0a\xff"))
        assert producer.flush(30) == 0
        job.start()
        counters = job.await_records_in(110).counters
        assert job.drain() == 0, job.log()
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(1, 101))
    assert counters.records_skipped == 10


def test_without_its_schema_a_job_does_not_start(local_job: LocalJobs, broker: str) -> None:
    with registry() as server:
        job = local_job(value_format=Format.AVRO, schema_registry=server.access)
        job.start()
        assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "SchemaNotFound"
    assert f"{job.spec.source.topics[0]}-value" in termination.message
