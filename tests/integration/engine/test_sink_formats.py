"""``sink.format`` in both engines: exactly once over crashes, and read by Confluent's own deserializer."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Message
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.access.registry_access import SINK_REGISTRY
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob, produce, produce_json
from tests.support.kafka import visibility
from tests.support.kafka.schema_registry import RegistryServer, framed, registry

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/12-avro-sink.yaml"
NUMBER = {
    "type": "record", "name": "Number",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "texts", "type": {"type": "array", "items": "string"}},
        {"name": "half", "type": ["null", "double"]},
    ],
}  # fmt: skip
_MODULE = """
import pyarrow as pa
import pyarrow.compute as pc


def numbers(batch):
    n = batch.column("value").cast(pa.string()).cast(pa.int32())
    texts = pc.split_pattern(pc.binary_repeat("7,", pc.bit_wise_and(n, 3)), ",")
    half = pc.if_else(pc.equal(pc.bit_wise_and(n, 1), 0), pc.divide(n.cast(pa.float64()), 2.0), None)
    return pa.record_batch({"key": batch.column("key"), "n": n, "texts": texts, "half": half})


def longer(batch):
    return pa.record_batch({"n": batch.column("value").cast(pa.string()).cast(pa.int64())})


def holes(batch):
    n = batch.column("value").cast(pa.string()).cast(pa.int32())
    return pa.record_batch({"n": pc.if_else(pc.equal(n, 7), None, n)})
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "encoded.py").write_text(_MODULE)
    return folder


def with_format(job: LocalJob, server: RegistryServer, chosen: SinkFormat) -> LocalJob:
    access = replace(server.access, field=SINK_REGISTRY)
    job.spec = replace(job.spec, sink=replace(job.spec.sink, format=chosen, schema_registry=access))
    return job


def decoded(server: RegistryServer, message: Message) -> Any:
    """By Confluent's deserializer, with the schema that the record names."""
    reader = AvroDeserializer(SchemaRegistryClient({"url": server.url}))
    return reader(message.value(), SerializationContext(message.topic(), MessageField.VALUE))


def number_of(n: int) -> dict[str, Any]:
    return {"n": n, "texts": ["7"] * (n & 3) + [""], "half": None if n & 1 else n / 2}


def test_the_example_is_exactly_once_over_a_crash_and_confluents_client_reads_it(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    resource = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    example = spec_from_resource(resource["spec"], namespace="n", name="j")
    source = example.source
    with registry() as server:
        assert example.sink.format is not None
        job = local_job(
            transform=example.transform, value_format=source.value_format, value_schema=source.value_schema,
            max_offsets=400,
        )  # fmt: skip
        with_format(job, server, example.sink.format)
        topic, sink = job.spec.source.topics[0], job.spec.sink.topic
        rows = [
            {"id": n, "amount": n / 100, "deleted": n % 5 == 0} | ({"customer": f"ü{n}"} if n % 3 else {})
            for n in range(1000)
        ]
        began = datetime.now(UTC) - timedelta(seconds=2)
        produce_json(broker, topic, rows)
        job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=2")
        assert job.await_end() == -signal.SIGKILL, job.log()
        seen = visibility.messages(broker, sink)
        assert 0 < len(seen) < len(rows)
        job.start()
        job.await_records_in(len(rows))
        assert job.drain() == 0, job.log()
        messages = visibility.messages(broker, sink)
        assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
        assert sorted(int(message.key()) for message in messages) == list(range(1000))
        assert server.subjects == {f"{sink}-value": [1]}, "the second attempt has found it"
        for message in messages:
            n = int(message.key())
            assert message.headers() == [("origin", topic.encode())]
            if n % 5 == 0:
                assert message.value() is None
                continue
            order = decoded(server, message)
            assert began < order.pop("at") < datetime.now(UTC)
            assert order == {
                "id": n, "customer": f"ü{n}" if n % 3 else None, "amount": Decimal(n).scaleb(-2), "channel": "shop",
            }  # fmt: skip


def test_both_engines_write_the_same_bytes_exactly_once_over_a_crash(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    with registry() as server:
        transform = Transform(arrow=ArrowTransform(function="encoded:numbers"))
        job = local_job(engine=Engine.CONTINUOUS, transform=transform, code=code, max_offsets=500)
        with_format(job, server, SinkFormat(value=SinkEncoding.AVRO))
        source, sink = job.spec.source.topics[0], job.spec.sink.topic
        number = server.register(f"{sink}-value", NUMBER)
        produce(broker, source, 0, 1500)
        job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=2")
        assert job.await_end() == -signal.SIGKILL, job.log()
        assert len(visibility.records(broker, sink)) <= 500, "of checkpoint 2 nothing is visible"
        job.start()
        job.await_records_in(1500)
        assert job.drain() == 0, job.log()
        engines = [(Engine.MICRO_BATCH, transform)]
        query = (
            "SELECT key, CAST(CAST(value AS STRING) AS INT) AS n,"
            " split(repeat('7,', CAST(CAST(value AS STRING) AS INT) & 3), ',') AS texts,"
            " IF(CAST(CAST(value AS STRING) AS INT) & 1 = 0, CAST(CAST(value AS STRING) AS INT) / 2D, NULL) AS half"
            " FROM source"
        )
        engines.append((Engine.MICRO_BATCH, Transform(sql=query)))
        for first, (engine, chosen) in zip((1500, 2000), engines, strict=True):
            job.spec = replace(job.spec, engine=engine, transform=chosen)
            produce(broker, source, first, 500)
            job.start()
            job.await_records_in(first + 500)
            assert job.drain() == 0, job.log()
        messages = visibility.messages(broker, sink)
        assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
        expected = [framed(number, NUMBER, number_of(n)) for n in range(2500)]
        assert sorted(message.value() for message in messages) == sorted(expected)
        assert decoded(server, messages[0])["texts"][-1] == ""


def test_columns_that_do_not_fit_stop_the_job_before_its_first_record(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    query = Transform(sql="SELECT CAST(CAST(value AS STRING) AS BIGINT) AS n FROM source")
    narrow = Transform(sql="SELECT offset AS n FROM source WHERE topic = 'another'")
    arrow = Transform(arrow=ArrowTransform(function="encoded:longer"))
    micro_batch, continuous = Engine.MICRO_BATCH, Engine.CONTINUOUS
    refused = (
        (micro_batch, query),
        (micro_batch, narrow),
        (continuous, narrow),
        (micro_batch, arrow),
        (continuous, arrow),
    )
    with registry() as server:
        job = local_job(transform=query, code=code)
        chosen = SinkFormat(
            value=SinkEncoding.AVRO, auto_register=True,
            value_schema=json.dumps({"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}),
        )  # fmt: skip
        with_format(job, server, chosen)
        sink = job.spec.sink.topic
        produce(broker, job.spec.source.topics[0], 0, 100)
        for engine, transform in refused:
            job.spec = replace(job.spec, engine=engine, transform=transform)
            job.start()
            assert job.await_end() == 1, job.log()
            termination = job.termination()
            assert termination is not None
            assert (termination.reason, termination.fatal) == ("SchemaMismatch", True), termination
            assert (
                f"column n is BIGINT, and the schema has int (schema 1 of subject '{sink}-value')"
                in termination.message
            )
            assert "CAST(n AS INT)" in termination.remedy

        job.spec = replace(job.spec, transform=Transform(arrow=ArrowTransform(function="encoded:holes")))
        for engine in (Engine.MICRO_BATCH, Engine.CONTINUOUS):
            job.spec = replace(job.spec, engine=engine)
            job.start()
            assert job.await_end() == 1, job.log()
            termination = job.termination()
            assert termination is not None
            assert (termination.reason, termination.fatal) == ("EncodeError", True), termination
            assert "column n is null, and the schema takes no null" in termination.message
    assert visibility.records(broker, sink) == []
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_json_with_a_key_of_columns_is_the_same_in_both_engines(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    transform = Transform(arrow=ArrowTransform(function="encoded:numbers"))
    job = local_job(engine=Engine.CONTINUOUS, transform=transform, code=code)
    chosen = SinkFormat(key=SinkEncoding.JSON, key_columns=("n",), value=SinkEncoding.JSON)
    job.spec = replace(job.spec, sink=replace(job.spec.sink, format=chosen))
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    for first, engine in ((0, Engine.CONTINUOUS), (300, Engine.MICRO_BATCH)):
        job.spec = replace(job.spec, engine=engine)
        produce(broker, source, first, 300)
        job.start()
        job.await_records_in(first + 300)
        assert job.drain() == 0, job.log()
    found = {message.key(): message.value() for message in visibility.messages(broker, sink)}
    assert len(found) == 600
    for n in range(600):
        number = {name: value for name, value in number_of(n).items() if value is not None}
        assert found[b'{"n":%d}' % n] == json.dumps(number, separators=(",", ":")).encode()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
