"""An error crosses processes as an object: with its class, its words and its remedy, and within bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from sparkapp.model.encoding.error_object import MARK, MAX_DETAIL, MAX_MESSAGE, decode_error, encode_error
from sparkapp.model.errors import (
    KafkaSparkJobError,
    PreCommitFailed,
    RecordError,
    RecordRefused,
    TransformFailed,
    kinds_of,
)
from sparkapp.model.errors.refusal import KEY_KEPT, Cause, RefusedRecord

OURS = [kind for kind in kinds_of() if kind.__module__.startswith("sparkapp.model.")]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_error_keeps_class_words_and_remedy(kind: type[KafkaSparkJobError]) -> None:
    said = "orders [0]: 中 'quoted' \"twice\"\nand a second line kafkaspark-error: {}"
    text = encode_error(kind(said, remedy="set x.y to {1}"))
    assert text.isascii()
    assert "\n" not in text
    found = decode_error(f"org.apache.spark.SparkException: Task 0\n{text}\n\n\tat org.apache.spark")
    assert found is not None
    assert (type(found), found.message, found.remedy) == (kind, said, "set x.y to {1}")
    assert (found.reason, found.fatal, found.condition) == (kind.reason, kind.fatal, kind.condition)


def test_a_remedy_of_the_class_and_a_detail_cross_too() -> None:
    found = decode_error(encode_error(TransformFailed("no", detail="x" * MAX_DETAIL + "the end")))
    assert found is not None
    assert found.remedy == TransformFailed.default_remedy
    assert (len(found.detail), found.detail[-7:]) == (MAX_DETAIL, "the end")


def test_the_last_error_counts_and_what_is_no_object_does_not() -> None:
    first, last = encode_error(RecordError("first")), encode_error(PreCommitFailed("last"))
    found = decode_error(f"{first}\nDuring handling of the above exception …\n{last}\n{MARK}and {MARK}{{")
    assert type(found) is PreCommitFailed


@pytest.mark.parametrize("key", [None, b"", b"k" * KEY_KEPT * 2])
def test_a_refused_record_crosses_with_its_error(key: bytes | None) -> None:
    error = RecordRefused("no")
    error.record = RefusedRecord("t", 3, key, 512, -1, 7, False, Cause.TIME)
    found = decode_error(encode_error(error))
    assert isinstance(found, RecordRefused)
    assert found.record == replace(error.record, key=None if key is None else key[:KEY_KEPT])


@pytest.mark.parametrize(
    "row",
    [
        [], {}, "record", 7, ["t", 0, "zz", 1, 1, 1, True, "Key"], ["t", 0, None, 1 << 70, 1, 1, True, "Key"],
        ["t", 0, None, 1.5, 1, 1, True, "Key"], ["t", 0, None, 1, 1, 1, True, "Colour"],
        [7, 0, None, 1, 1, 1, True, "Key"],
        ["t", 0, 9, 1, 1, 1, True, "Key"],
    ],
)  # fmt: skip
def test_a_forged_record_is_no_error(row: object) -> None:
    body = {"kind": "RecordRefused", "message": "x", "record": row}
    assert decode_error(MARK + json.dumps(body)) is None


@pytest.mark.parametrize(
    "body",
    [
        [], None, 7, {}, {"kind": "SystemExit", "message": "x"}, {"kind": "kinds_of", "message": "x"},
        {"kind": ["PreCommitFailed"], "message": "x"}, {"kind": "PreCommitFailed"},
        {"kind": "PreCommitFailed", "message": 7}, {"kind": "PreCommitFailed", "message": "x", "remedy": {}},
        {"kind": "PreCommitFailed", "message": "x", "detail": []},
    ],
)  # fmt: skip
def test_a_forged_object_is_none(body: object) -> None:
    assert decode_error(MARK + json.dumps(body)) is None


def test_a_forged_text_is_bounded_and_deep_or_many_marks_do_no_harm() -> None:
    found = decode_error(MARK + json.dumps({"kind": "RecordError", "message": "中" * MAX_MESSAGE * 2}))
    assert found is not None
    assert len(found.message) == MAX_MESSAGE
    found = decode_error(MARK + json.dumps({"kind": "RecordError", "message": "\ud800" + "x" * MAX_MESSAGE}))
    assert found is not None
    assert len(found.message) == MAX_MESSAGE
    assert decode_error(MARK + "[" * 100_000) is None
    assert decode_error(MARK * 1_000_000) is None
    assert decode_error("") is None


def test_a_class_of_a_test_or_plugin_crosses_as_its_nearest_known_class() -> None:
    class Narrower(PreCommitFailed): ...

    found = decode_error(encode_error(Narrower("no")))
    assert type(found) is PreCommitFailed


_WORKER = """
import traceback
from sparkapp.model.encoding.error_object import add_objects_to_tracebacks
from sparkapp.model.errors import PreCommitFailed
add_objects_to_tracebacks()
try:
    try:
        raise PreCommitFailed("refused", remedy="raise it")
    except PreCommitFailed as error:
        raise RuntimeError("theirs") from error
except RuntimeError:
    print(traceback.format_exc())
"""


def test_a_workers_traceback_has_the_object() -> None:
    printed = subprocess.run([sys.executable, "-c", _WORKER], capture_output=True, text=True, check=True).stdout
    found = decode_error(printed)
    assert found is not None
    assert (type(found), found.message, found.remedy) == (PreCommitFailed, "refused", "raise it")
    assert str(PreCommitFailed("refused")) == "refused"
