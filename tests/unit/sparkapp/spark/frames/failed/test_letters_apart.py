"""Letters among the rows of a write task; Spark itself is in tests/integration/engine/test_letters_apart.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark import TaskContext

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.sink.dead_letter import ERROR, RAW_KEY, RAW_VALUE, STAGE
from sparkapp.spark.frames.failed.letters_apart import COLUMN, Letters, letter_streams, parted
from sparkapp.spark.tasks import write_task
from sparkapp.spark.tasks.write_task import WriteOrder, decode_result, write_partition
from tests.support.jobs.plain_job import plain_spec

SPEC = plain_spec(
    source=Source(topics=("in",), group_id="g", value_format=Format.JSON, value_schema="n INT, s STRING"),
    record_errors=RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dead"),
)


def bad(*offsets: int) -> pa.RecordBatch:
    fields = [*SOURCE_SCHEMA, pa.field(RAW_KEY, pa.binary()), pa.field(RAW_VALUE, pa.binary())]
    fields += [pa.field(STAGE, pa.string()), pa.field(ERROR, pa.string())]
    rows = [
        {"topic": "in", "partition": 0, "offset": each, RAW_VALUE: b"raw %d" % each, STAGE: "value", ERROR: "bad"}
        for each in offsets
    ]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))


def batch(n: Sequence[int | None], letters: Sequence[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(n, pa.int64()), COLUMN: pa.array(letters, pa.binary())})


def stream_of(*offsets: int) -> bytes:
    (found,) = letter_streams("ns.job", [bad(), bad(*offsets)])
    return bytes(found.column(COLUMN)[0].as_py())


def test_rows_and_letters_are_parted_in_whatever_order_they_come() -> None:
    mixed = batch([1, None, 2, None], [None, stream_of(7, 8), None, stream_of(9)])
    found = list(parted([batch([0], [None]), mixed, batch([3], [None])]))
    rows = [each for each in found if isinstance(each, pa.RecordBatch)]
    assert [each.schema.names for each in rows] == [["n"]] * 3
    assert [each.column("n").to_pylist() for each in rows] == [[0], [1, 2], [3]]
    letters = [each.rows for each in found if isinstance(each, Letters)]
    assert [each.column("value").to_pylist() for each in letters] == [[b"raw 7", b"raw 8"], [b"raw 9"]]
    headers = {header["key"]: header["value"] for header in letters[1].column("headers")[0].as_py()}
    assert headers["kafkaspark.error.offset"] == b"9"
    assert headers["kafkaspark.error.job.name"] == b"ns.job"


def test_a_checkpoint_without_records_has_no_column_for_letters() -> None:
    rows = pa.record_batch({"n": [1]})
    assert list(parted([rows])) == [rows]


class Writer:
    """Notes what it is given."""

    repeats = True
    records, dead_letters = 0, 0

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.letters: list[tuple[bytes, str]] = []

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None

    def write(self, given: pa.RecordBatch) -> None:
        self.rows += given.to_pylist()

    def write_dead_letters(self, given: pa.RecordBatch, *, topic: str, limit: int) -> None:
        assert limit > 0
        self.letters += [(value, topic) for value in given.column("value").to_pylist()]


def test_a_task_encodes_rows_alone_and_looks_for_no_file_of_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = SinkFormat(value=SinkEncoding.JSON)
    spec = replace(SPEC, sink=replace(SPEC.sink, format=chosen))
    job = Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)
    writer = Writer()
    monkeypatch.setattr(write_task, "writer_for", lambda *_: writer)
    order = WriteOrder(
        checkpoint_id=1, subtask=0, next_free=0, settled=0, writes_what_it_reads=True, group_id=None,
        reads_letters_apart=True,
    )  # fmt: skip
    given = [batch([1], [None]), batch([None, 2], [stream_of(5), None]), batch([None], [stream_of(6)])]
    with patch.object(TaskContext, "get", return_value=SimpleNamespace(partitionId=lambda: 0)):
        (answer,) = write_partition(encode_job(job), [order], iter(given))
    assert decode_result(answer.column("result")[0].as_py(), lambda _: order).committable is None
    assert [row["value"] for row in writer.rows] == [b'{"n":1}', b'{"n":2}']
    assert writer.letters == [(b"raw 5", "dead"), (b"raw 6", "dead")]
