"""Spark's log, rebuilt from the document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkapp.model.errors import CheckpointCorrupt
from sparkapp.spark.query_log import (
    EngineState,
    decode_engine,
    encode_engine,
    read_metadata,
    rebuild,
    watermark_millis,
)


def test_engine_text_round_trip() -> None:
    state = EngineState(7, '{"batchWatermarkMs":5}')
    assert decode_engine(encode_engine(state)) == state
    assert decode_engine("") == EngineState()


@pytest.mark.parametrize("text", ["{", "[]", '{"plan":1}', '{"plan":"1","metadata":"{}"}', '{"plan":1,"metadata":"x"}'])
def test_engine_text_that_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(CheckpointCorrupt):
        decode_engine(text)


@pytest.mark.parametrize(
    ("metadata", "watermark"), [('{"batchWatermarkMs":5}', 5), ('{"batchWatermarkMs":0}', None), ("{}", None)]
)
def test_the_watermark_of_the_last_batch(metadata: str, watermark: int | None) -> None:
    assert watermark_millis(encode_engine(EngineState(7, metadata))) == watermark


def test_there_is_no_watermark_before_the_first_batch() -> None:
    assert watermark_millis("") is None


def test_rebuild_before_the_first_checkpoint_leaves_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("left over")
    rebuild(tmp_path, job_uid="u", checkpoint_id=0, engine=EngineState())
    assert not (tmp_path / "offsets").exists()
    assert json.loads((tmp_path / "metadata").read_text())["id"]


def test_rebuild_resumes_after_the_documents_checkpoint_and_keeps_operator_state(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "9").write_text("a batch that was never completed")
    rebuild(tmp_path, job_uid="u", checkpoint_id=3, engine=EngineState(5, '{"batchWatermarkMs":42}'))
    assert sorted(p.name for p in (tmp_path / "offsets").iterdir()) == ["1", "2"]
    assert (tmp_path / "offsets" / "2").read_text() == 'v1\n{"batchWatermarkMs":42}\n{"plan": 5}'
    assert (tmp_path / "commits" / "2").read_text() == 'v1\n{"nextBatchWatermarkMs": 42}'
    assert read_metadata(tmp_path, 2) == '{"batchWatermarkMs":42}'
    assert (tmp_path / "state").is_dir()


def test_the_query_keeps_its_id_over_rebuilds(tmp_path: Path) -> None:
    rebuild(tmp_path, job_uid="u", checkpoint_id=0, engine=EngineState())
    first = (tmp_path / "metadata").read_text()
    rebuild(tmp_path, job_uid="u", checkpoint_id=4, engine=EngineState())
    assert (tmp_path / "metadata").read_text() == first
