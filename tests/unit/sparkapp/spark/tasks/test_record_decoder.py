"""Formats and ``onRecordError`` in a subtask of the continuous engine, with a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from sparkapp.dataplane.interface import ALL_COLUMNS, SOURCE_SCHEMA
from sparkapp.model.errors import RecordError
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine, Job
from sparkapp.source import record_tally
from sparkapp.spark.frames import record_policy
from sparkapp.spark.frames.batch_transform import transform_of
from sparkapp.spark.frames.dead_letter_file import DeadLetterFile
from sparkapp.spark.tasks.record_decoder import RecordDecoder
from tests.support.jobs.plain_job import plain_spec
from tests.support.kafka.schema_registry import framed, registry

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
_LATE = 1_764_000_000_000_000_000
"""A time in microseconds, in the year 57,868: no stage may make a ``datetime`` of it."""
SPEC = plain_spec(transform=Transform(arrow=ArrowTransform(function="a:b")), engine=Engine.CONTINUOUS)


@pytest.fixture(scope="module")
def access() -> Iterator[RegistryAccess]:
    with registry() as server:
        assert server.register("in-value", SCHEMA) == 1
        yield RegistryAccess(url=server.url)


@pytest.fixture(autouse=True)
def of_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_tally, "_known", set())
    monkeypatch.setattr(record_tally, "_shown", set())


def decoder(policy: OnRecordError = OnRecordError.FAIL, *, arrow: bool = True, **source: object) -> RecordDecoder:
    topic = "dlq" if policy is OnRecordError.DEAD_LETTER else ""
    spec = replace(
        SPEC, source=replace(SPEC.source, **source), transform=SPEC.transform if arrow else Transform(),
        record_errors=RecordErrors(policy=policy, dead_letter_topic=topic),
    )  # fmt: skip
    return RecordDecoder(Job(namespace="ns", name="job", uid="u", generation=1, attempt=1, spec=spec))


def avro(access: RegistryAccess) -> dict[str, object]:
    return {
        "key_format": Format.STRING, "value_format": Format.AVRO, "schema_registry": access,
        "value_schema": json.dumps(SCHEMA),
    }  # fmt: skip


def batch(*values: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {"key": b"k%d" % n, "value": value, "topic": "in", "partition": 2, "offset": n, "timestamp": _LATE}
            for n, value in enumerate(values)
        ],
        schema=SOURCE_SCHEMA,
    )


def good(number: int) -> bytes:
    return framed(1, SCHEMA, {"n": number})


def test_text_is_any_bytes() -> None:
    made = decoder(key_format=Format.STRING, value_format=Format.STRING)
    (found,) = made.decode([batch(b"a", None, b"\xff")])
    assert found.schema.names == SOURCE_SCHEMA.names
    assert found.schema.field("key").type == found.schema.field("value").type == pa.string()
    assert found.column("key").to_pylist() == ["k0", "k1", "k2"]
    assert found.column("value").cast(pa.binary()).to_pylist() == [b"a", None, b"\xff"]


def test_records_that_pass_through_stay_bytes() -> None:
    given = batch(b"a", b"\xff")
    (found,) = decoder(arrow=False, key_format=Format.STRING, value_format=Format.STRING).decode([given])
    assert found is given


def test_a_format_of_the_sink_encodes_decoded_records() -> None:
    sink = replace(SPEC.sink, format=SinkFormat(value=SinkEncoding.JSON))
    source = replace(SPEC.source, value_format=Format.STRING)
    spec = replace(SPEC, source=source, sink=sink, transform=Transform())
    made = RecordDecoder(Job(namespace="ns", name="job", uid="u", generation=1, attempt=1, spec=spec))
    (found,) = transform_of(spec).map(made.decode([batch(b"a")]))
    assert found.column("value").to_pylist() == [b'"a"']


def test_parsed_records_and_a_tombstone(access: RegistryAccess) -> None:
    (found,) = decoder(**avro(access)).decode([batch(good(7), None)])
    assert found.schema.names == SOURCE_SCHEMA.names
    assert found.column("value").to_pylist() == [{"n": 7}, None]
    assert found.column("key").to_pylist() == ["k0", "k1"]


def test_fail_names_the_first_bad_record(access: RegistryAccess) -> None:
    with pytest.raises(
        RecordError, match=r"^topic in, partition 2, offset 1: the value is not avro: it does not begin"
    ):
        list(decoder(**avro(access)).decode([batch(good(1), b"x", b"y")]))


def test_skip_leaves_out_and_counts(access: RegistryAccess) -> None:
    made = decoder(OnRecordError.SKIP, **avro(access))
    found = list(made.decode([batch(good(1), b"x", good(3)), batch(b"x"), batch(good(5))]))
    assert [value["n"] for each in found for value in each.column("value").to_pylist()] == [1, 3, 5]
    assert made.skipped == 2


def test_dead_letters_have_the_raw_record_and_the_failed_side(access: RegistryAccess, tmp_path: Path) -> None:
    file = DeadLetterFile(attempt_key="l", stage=0, partition=0, task_attempt=0, scratch=tmp_path)
    made = decoder(
        OnRecordError.DEAD_LETTER, **avro(access) | {"key_format": Format.AVRO, "key_schema": json.dumps(SCHEMA)}
    )
    with patch.object(record_policy, "dead_letters_of_task", return_value=file):
        found = list(made.decode([batch(good(1))]))
    assert [each.num_rows for each in found] == [0]
    (letter,) = (row for letters in file.take() for row in letters.to_pylist())
    assert (letter["key"], letter["value"]) == (b"k0", good(1))
    headers = {header["key"]: header["value"] for header in letter["headers"]}
    assert headers["kafkaspark.error.stage"] == b"KEY_DECODER"
    assert made.skipped == 0


JSON = {"key_format": Format.JSON, "key_schema": "k INT", "value_format": Format.JSON, "value_schema": "n BIGINT"}


def json_batch(*values: bytes | None) -> pa.RecordBatch:
    given = batch(*values)
    return given.set_column(0, "key", pa.array([b'{"k":1}'] * len(values), pa.binary()))


def test_json_is_structs_and_skip_counts_what_is_none() -> None:
    made = decoder(OnRecordError.SKIP, **JSON)
    (found,) = made.decode([json_batch(b'{"n":1}', b"{", None, b"{'n':2} and more")])
    assert found.column("key").to_pylist() == [{"k": 1}] * 3
    assert found.column("value").to_pylist() == [{"n": 1}, None, {"n": 2}]
    assert found.column("offset").to_pylist() == [0, 2, 3]
    assert made.skipped == 1


def test_fail_names_the_record_that_is_not_json() -> None:
    with pytest.raises(RecordError, match="topic in, partition 2, offset 1: the value is not JSON that fits the sch"):
        list(decoder(**JSON).decode([json_batch(b'{"n":1}', b'{"n":"1"}')]))


def test_a_query_reads_what_it_uses_and_what_is_judged() -> None:
    def made(policy: OnRecordError, query: str) -> RecordDecoder:
        source = {
            "key_format": Format.JSON,
            "key_schema": "n INT",
            "value_format": Format.JSON,
            "value_schema": "n INT",
        }
        spec = replace(
            SPEC, source=replace(SPEC.source, **source), transform=Transform(sql=query),
            record_errors=RecordErrors(policy=policy, dead_letter_topic="dlq" * (policy is OnRecordError.DEAD_LETTER)),
        )  # fmt: skip
        return RecordDecoder(Job(namespace="ns", name="job", uid="u", generation=1, attempt=1, spec=spec))

    found = made(OnRecordError.FAIL, "SELECT value.n AS value FROM source")
    assert found.source_columns == {"value", "topic", "partition", "offset"}
    (records,) = found.decode([batch(b'{"n":1}')])  # its key is no JSON
    assert records.column("value").to_pylist() == [{"n": 1}]
    found = made(OnRecordError.SKIP, "SELECT value.n AS value FROM source")
    assert found.source_columns == {"key", "value", "topic", "partition", "offset"}
    (records,) = found.decode([batch(b'{"n":1}')])
    assert (records.num_rows, found.skipped) == (0, 1)
    assert made(OnRecordError.FAIL, "SELECT topic AS value FROM source").source_columns == frozenset()
    assert made(OnRecordError.DEAD_LETTER, "SELECT topic AS value FROM source").source_columns == ALL_COLUMNS
