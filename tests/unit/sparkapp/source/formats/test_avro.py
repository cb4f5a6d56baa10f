"""Avro: several writers' schemas in one batch, types, and invalid records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from sparkapp.formats.avro_types import arrow_type
from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.model.errors import SchemaNotFound, SchemaRegistryUnreachable, SchemaUnusable
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.source.formats.avro import AvroDecoder
from sparkapp.source.formats.reader_schema import with_reader_schemas
from sparkapp.source.formats.registered_records import REFUSALS_PER_SECOND, REFUSED_SECONDS
from tests.support.kafka.schema_registry import RegistryServer, framed, registry


def record(*fields: tuple[str, object] | dict[str, object], name: str = "R", **extra: object) -> dict[str, object]:
    listed = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return {"type": "record", "name": name, "fields": listed, **extra}


ONE = record(("id", "int"))
TWO = record(("id", "long"), {"name": "name", "type": "string", "default": "nobody"})


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def decoder(server: RegistryServer, reader: object, *, timeout: float = 60.0) -> AvroDecoder:
    return AvroDecoder(
        SchemaRegistry(server.access, timeout=timeout), json.dumps(reader), where="the reader schema of the value"
    )


def decode(server: RegistryServer, reader: object, *values: bytes | None) -> tuple[list[object], list[str | None]]:
    decoding = decoder(server, reader)
    column, errors = decoding.decode(pa.array(values, pa.binary()))
    assert column.type == decoding.type
    return column.to_pylist(), errors


def test_each_record_is_read_with_its_writers_schema_into_the_readers(server: RegistryServer) -> None:
    first, second = server.register("s", ONE), server.register("s", TWO)
    values = [framed(first, ONE, {"id": 1}), framed(second, TWO, {"id": 1 << 40, "name": "x"}), None]
    rows, errors = decode(server, TWO, *values, values[0])
    assert rows == [{"id": 1, "name": "nobody"}, {"id": 1 << 40, "name": "x"}, None, {"id": 1, "name": "nobody"}]
    assert errors == [None] * 4
    assert server.requests == [f"/schemas/ids/{first}", f"/schemas/ids/{second}"]


def test_a_field_that_the_reader_does_not_name_is_left_out(server: RegistryServer) -> None:
    number = server.register("s", TWO)
    rows, _ = decode(
        server, ONE | {"fields": [{"name": "id", "type": "long"}]}, framed(number, TWO, {"id": 3, "name": "x"})
    )
    assert rows == [{"id": 3}]


def test_what_is_not_a_record_is_an_error_and_its_neighbours_are_not(server: RegistryServer) -> None:
    number, other = server.register("s", ONE), server.register("s", record(("name", "string")))
    protobuf = server.register("p", "message M {}", kind="PROTOBUF")
    good = framed(number, ONE, {"id": 7})
    head = good[:5]
    rows, errors = decode(
        server, ONE,
        good, b"", b"{}", b"\x00\x00", b"\x01" + good[1:], head, good + b"x", framed(99, ONE, {"id": 1}),
        framed(other, record(("name", "string")), {"name": "n"}), framed(protobuf, ONE, {"id": 1}), head + b"\xff" * 12,
        good,
    )  # fmt: skip
    assert rows == [{"id": 7}, *[None] * 10, {"id": 7}]
    assert errors[0] is None
    assert errors[-1] is None
    for text, expected in zip(
        errors[1:-1],
        ["begin with a zero byte", "begin with a zero byte", "begin with a zero byte", "begin with a zero byte",
         "EOFError", "1 bytes follow the record", "has no schema 99", "SchemaResolutionError", "PROTOBUF, not AVRO",
         "schema 1"],
        strict=True,
    ):  # fmt: skip
        assert text is not None
        assert expected in text
        assert "\n" not in text


@pytest.mark.parametrize(
    ("value", "look"),
    [
        (b'{"id": 7}', "7b22696422, which looks like JSON"), (b' \n["x"]', "200a5b2278, which looks like JSON"),
        (b"Obj\x01\x04", "4f626a0104, which looks like an Avro file"),
        (b"\xc3\x01" + b"8" * 9, "c301383838, which looks like Avro's encoding of single objects"), (b"\x02a", "0261"),
        (b"", "nothing"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_a_record_without_a_frame_looks_like(server: RegistryServer, value: bytes, look: str) -> None:
    _, errors = decode(server, ONE, value)
    assert errors == [f"it does not begin with a zero byte and a schema id, but with {look}"]


def test_an_id_that_no_registry_gives_is_an_error_of_its_record_without_a_request(server: RegistryServer) -> None:
    number = server.register("s", ONE)
    ids = [1 << 31, (1 << 32) - 1, (1 << 31) - 1, number]
    _, errors = decode(server, ONE, *(framed(each, ONE, {"id": 7}) for each in ids))
    assert [error and error.partition(":")[0] for error in errors] == [
        "it does not begin with a zero byte and a schema id, but with 0080000000",
        "it does not begin with a zero byte and a schema id, but with 00ffffffff",
        "the schema registry http",
        None,
    ]
    assert server.requests == [f"/schemas/ids/{(1 << 31) - 1}", f"/schemas/ids/{number}"]


def test_an_unknown_id_is_asked_for_again_after_some_time_and_not_before(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    decoding = decoder(server, ONE)
    monkeypatch.setattr(decoding, "_clock", lambda: now[0])
    values = pa.array([framed(1, ONE, {"id": 7})] * 3, pa.binary())
    for _ in range(50):
        assert [error is not None for error in decoding.decode(values)[1]] == [True] * 3
    assert len(server.requests) == 1
    server.register("s", ONE)
    now[0] += REFUSED_SECONDS
    assert decoding.decode(values)[1] == [None] * 3


def test_a_schema_that_cannot_be_used_is_asked_for_once_too(server: RegistryServer) -> None:
    number = server.register("p", "message M {}", kind="PROTOBUF")
    decoding = decoder(server, ONE)
    for _ in range(50):
        decoding.decode(pa.array([framed(number, ONE, {"id": 1})], pa.binary()))
    assert len(server.requests) == 1


def test_unknown_ids_are_forgotten_where_there_are_too_many(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkapp.source.formats.registered_records.REFUSED_IDS", 3)
    decoding = decoder(server, ONE)
    decoding.decode(pa.array([framed(number, ONE, {"id": 1}) for number in range(1, 6)], pa.binary()))
    assert len(decoding._refused) == 3
    assert len(server.requests) == 5
    decoding.decode(pa.array([framed(number, ONE, {"id": 1}) for number in (3, 4, 5)], pa.binary()))
    assert len(server.requests) == 5


def test_the_unknown_ids_of_a_batch_share_a_connection_and_a_rate(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waited = [100.0], [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        waited[0] += seconds

    monkeypatch.setattr("sparkapp.source.formats.registered_records.REFUSALS", 10)
    monkeypatch.setattr("sparkapp.formats.schema_registry._SESSION_SECONDS", math.inf)
    decoding = decoder(server, ONE)
    monkeypatch.setattr(decoding, "_clock", lambda: now[0])
    monkeypatch.setattr(decoding, "_sleep", sleep)
    flood = pa.array([framed(number, ONE, {"id": 1}) for number in range(2, 62)], pa.binary())
    assert all(error is not None and "has no schema" in error for error in decoding.decode(flood)[1])
    assert (len(server.requests), server.connections) == (60, 1)
    assert waited[0] == pytest.approx(50 / REFUSALS_PER_SECOND)

    # A good id is requested at once, and is not an error.
    good = server.register("s", ONE)
    each = pa.array([framed(good, ONE, {"id": 7})], pa.binary())
    assert decoding.decode(each)[1] == [None]
    assert (waited[0], server.connections) == (pytest.approx(50 / REFUSALS_PER_SECOND), 2)
    server.schemas[30] = server.schemas[good]
    now[0] += REFUSED_SECONDS
    assert [error is None for error in decoding.decode(flood)[1]].count(True) == 1


def test_a_registry_that_is_down_is_no_fault_of_the_record(server: RegistryServer) -> None:
    server.broken = 1000
    with pytest.raises(SchemaRegistryUnreachable):
        decoder(server, ONE, timeout=0.8).decode(pa.array([framed(1, ONE, {"id": 7})], pa.binary()))


def test_references(server: RegistryServer) -> None:
    server.register("address", record(("city", "string"), name="shop.Address"))
    schema = record(("to", "shop.Address"))
    number = server.register("s", schema, references=[{"name": "shop.Address", "subject": "address", "version": 1}])
    whole = record(("to", record(("city", "string"), name="shop.Address")))
    rows, errors = decode(server, whole, framed(number, whole, {"to": {"city": "Oslo"}}))
    assert (rows, errors) == ([{"to": {"city": "Oslo"}}], [None])


ALL = record(
    ("flag", "boolean"), ("single", "float"), ("double", "double"), ("bytes", "bytes"), ("text", "string"),
    ("maybe", ["null", "int"]), ("list", {"type": "array", "items": ["null", "long"]}),
    ("map", {"type": "map", "values": "int"}), ("color", {"type": "enum", "name": "C", "symbols": ["RED", "BLUE"]}),
    ("fixed", {"type": "fixed", "name": "F", "size": 2}), ("again", "C"), ("inner", record(("x", "int"), name="I")),
    ("day", {"type": "int", "logicalType": "date"}), ("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    ("micros", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
    ("uuid", {"type": "string", "logicalType": "uuid"}), ("time", {"type": "int", "logicalType": "time-millis"}),
    ("money", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ("wide", ["int", "long"]), name="shop.All",
)  # fmt: skip
FULL = {
    "flag": True, "single": 0.5, "double": 0.1, "bytes": b"\xff", "text": "ü", "maybe": None, "list": [1, None],
    "map": {"a": 1}, "color": "BLUE", "fixed": b"ab", "again": "RED", "inner": {"x": 5}, "day": date(2026, 11, 21),
    "millis": datetime(2026, 11, 21, 8, 0, 0, 123000, tzinfo=UTC),
    "micros": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "local": datetime(2026, 11, 21, 8, tzinfo=UTC).replace(tzinfo=None),
    "uuid": "0b1f6c5e-7f5e-4f5e-9a5e-000000000001", "time": 1, "money": Decimal("12.34"), "wide": 1 << 40,
}  # fmt: skip


def test_types(server: RegistryServer) -> None:
    number = server.register("s", ALL)
    plain = {**FULL, "time": 1}
    schema = json.loads(json.dumps(ALL))
    for field in schema["fields"]:  # written as the number that it is
        if field["name"] == "time":
            field["type"] = "int"
        if field["name"] == "local":
            field["type"] = "long"
    plain["local"] = 1795248000000
    rows, errors = decode(server, ALL, framed(number, schema, plain))
    assert errors == [None]
    found = dict(rows[0])  # type: ignore[call-overload]
    assert dict(found.pop("map")) == {"a": 1}
    assert found == {name: value for name, value in FULL.items() if name != "map"}


def test_a_value_outside_its_columns_range_is_an_error_of_that_record_alone(server: RegistryServer) -> None:
    schema = record(("at", {"type": "long", "logicalType": "timestamp-millis"}))
    number = server.register("s", schema)
    raw = record(("at", "long"))
    rows, errors = decode(
        server, schema, *(framed(number, raw, {"at": at}) for at in (0, (1 << 63) - 1, 1000))
    )  # fmt: skip
    assert [row is None for row in rows] == [False, True, False]
    assert [error is not None for error in errors] == [False, True, False]


@pytest.mark.parametrize("raw", ["bytes", {"type": "fixed", "name": "F", "size": 4}])
def test_a_decimal_with_more_digits_than_its_writer_allows_is_an_error(server: RegistryServer, raw: object) -> None:
    base = raw if isinstance(raw, dict) else {"type": raw}
    writer, reader = ({**base, "logicalType": "decimal", "precision": most, "scale": 2} for most in (4, 9))
    number = server.register("s", record(("money", writer)))
    unscaled = (9999, -9999, 0, 10000, 123456, -123400)
    values = [
        framed(number, record(("money", raw)), {"money": each.to_bytes(4, "big", signed=True)}) for each in unscaled
    ]
    rows, errors = decode(server, record(("money", reader)), *values)
    assert rows == [{"money": Decimal(text)} for text in ("99.99", "-99.99", "0.00")] + [None] * 3
    assert errors == [None] * 3 + ["a decimal with more digits than the 4 of its writer's schema"] * 3


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("nothing", "is not an Avro schema"),
        ({"type": "record"}, "is not an Avro schema"),
        (record(("x", ["int", "string"])), "x is a union of 2 types"),
        (record(("next", ["null", "R"])), "next contains itself"),
        (record(("x", record(("y", ["null", "int", "string", "long"]), name="I"))), "x.y is a union of 3 types"),
        (record(("x", {"type": "bytes", "logicalType": "decimal", "precision": 39})), "decimal"),
        (record(), "without fields"),
        (record(("x", "null")), "has the type 'null'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reader_schema_that_cannot_be_columns(server: RegistryServer, schema: object, message: str) -> None:
    with pytest.raises(SchemaUnusable, match="the reader schema of the value") as caught:
        decoder(server, schema)
    assert message in caught.value.message


def test_a_name_is_looked_up_with_its_namespace() -> None:
    inner = record(("x", "int"), name="b.I")
    schema = record(("one", record(("y", "long"), name="I")), ("two", inner), ("three", "I"), namespace="a")
    assert arrow_type(schema, "it").field("three").type == pa.struct([("y", pa.int64())])


def job(access: RegistryAccess, **source: object) -> Job:
    fields = {"topics": ("in",), "group_id": "g", "value_format": Format.AVRO, "schema_registry": access, **source}
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers="b:1"), source=Source(**fields), transform=Transform(),  # type: ignore[arg-type]
        sink=Sink(topic="out", transactional_id_prefix="p"),
    )  # fmt: skip
    return Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)


def test_the_latest_schema_of_the_topics_subject_gives_the_columns(server: RegistryServer) -> None:
    server.register("in-value", ONE)
    server.register("in-value", TWO)
    server.register("in-key", '"string"')
    found = with_reader_schemas(job(server.access, key_format=Format.AVRO)).spec.source
    assert json.loads(found.value_schema) == TWO
    assert json.loads(found.key_schema) == "string"


def test_a_given_schema_is_taken_and_nobody_asked(server: RegistryServer) -> None:
    found = with_reader_schemas(job(server.access, value_schema=json.dumps(ONE, indent=2))).spec.source
    assert found.value_schema == json.dumps(ONE, separators=(",", ":"))
    assert server.requests == []


def test_a_job_without_avro_is_left_alone() -> None:
    unchanged = job("", value_format=Format.RAW)
    assert with_reader_schemas(unchanged) == unchanged


def test_what_the_registry_lacks_is_said_at_the_start(server: RegistryServer) -> None:
    with pytest.raises(SchemaNotFound, match="'in-value'") as caught:
        with_reader_schemas(job(server.access))
    assert "valueSchema" in caught.value.remedy
    server.register("in-value", "message M {}", kind="PROTOBUF")
    with pytest.raises(SchemaUnusable, match="PROTOBUF"):
        with_reader_schemas(job(server.access))
    server.register("in-value", record(("x", "Other")), references=[{"name": "Other", "subject": "o", "version": 1}])
    with pytest.raises(SchemaNotFound, match="'o', version 1"):
        with_reader_schemas(job(server.access))
