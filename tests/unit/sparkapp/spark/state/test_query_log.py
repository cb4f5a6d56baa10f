"""Spark's log, rebuilt from the document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CheckpointCorrupt, StateUncertain
from sparkapp.spark.state.query_folder import LocalQueryFolder
from sparkapp.spark.state.query_log import (
    EngineState,
    decode_engine,
    encode_engine,
    read_metadata,
    rebuild,
    restored_engine,
    undone,
    watermark_before,
    watermark_millis,
)


def test_engine_text_round_trip() -> None:
    for state in (
        EngineState(7, '{"batchWatermarkMs":5}'),
        EngineState(7, "{}", base=3, watermark=9, previous_watermark=0, attempt=4),
    ):
        assert decode_engine(encode_engine(state)) == state
    assert decode_engine("") == EngineState()


def test_a_document_without_base_and_watermark_is_read() -> None:
    state = decode_engine('{"plan":7,"metadata":"{\\"batchWatermarkMs\\":5}"}')
    assert (state.plan, state.base, state.batch_watermark, state.next_watermark) == (7, 0, 5, 5)


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"plan":1}', '{"plan":"1","metadata":"{}"}', '{"plan":1,"metadata":"x"}',
        '{"plan":1,"metadata":"{}","base":"0"}', '{"plan":1,"metadata":"{}","base":-1}',
        '{"plan":1,"metadata":"{\\"conf\\":3}"}', '{"plan":1,"metadata":"{\\"batchWatermarkMs\\":\\"x\\"}"}',
        '{"plan":1,"metadata":"{}","watermark":1.5}', '{"plan":1,"metadata":"{}","formerWatermark":-1}',
        '{"plan":1,"metadata":"{}","stateAttempt":0}',
    ],
)  # fmt: skip
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
    rebuild(tmp_path, job_uid="u", checkpoint_id=0, engine=EngineState(), sources=1)
    assert not (tmp_path / "offsets").exists()
    assert json.loads((tmp_path / "metadata").read_text())["id"]


def test_rebuild_resumes_after_the_documents_checkpoint_and_keeps_operator_state(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "9").write_text("a batch that was never completed")
    rebuild(tmp_path, job_uid="u", checkpoint_id=3, engine=EngineState(5, '{"batchWatermarkMs":42}'), sources=1)
    assert sorted(p.name for p in (tmp_path / "offsets").iterdir()) == ["1", "2"]
    assert (tmp_path / "offsets" / "2").read_text() == 'v1\n{"batchWatermarkMs":42}\n{"plan": 5}'
    assert (tmp_path / "commits" / "2").read_text() == 'v1\n{"nextBatchWatermarkMs": 42}'
    assert read_metadata(tmp_path, 2) == '{"batchWatermarkMs":42}'
    assert (tmp_path / "state").is_dir()


def test_batches_count_from_the_checkpoint_at_which_operators_began_to_keep_state(tmp_path: Path) -> None:
    engine = EngineState(5, '{"batchWatermarkMs":42}', base=10, watermark=50)
    rebuild(tmp_path, job_uid="u", checkpoint_id=12, engine=engine, sources=2)
    assert sorted(p.name for p in (tmp_path / "offsets").iterdir()) == ["0", "1"]
    assert (tmp_path / "offsets" / "1").read_text() == 'v1\n{"batchWatermarkMs":42}\n{"plan": 5}\n{"plan": 5}'
    assert (tmp_path / "commits" / "1").read_text() == 'v1\n{"nextBatchWatermarkMs": 50}'
    rebuild(tmp_path, job_uid="u", checkpoint_id=10, engine=engine, sources=2)
    assert not (tmp_path / "offsets").exists()


def test_a_query_without_state_is_new_and_a_query_with_state_resumes() -> None:
    text = encode_engine(EngineState(5, '{"batchWatermarkMs":42,"conf":{"spark.sql.shuffle.partitions":"2"}}', base=1))
    document = CheckpointDocument(
        job_uid="u", attempt=1, checkpoint_id=9, created_at="", parallelism=1, prefix="p", engine=text
    )
    assert restored_engine(document) == EngineState(5, base=9)
    kept = restored_engine(replace(document, engine_has_state=True))
    assert kept == decode_engine(text)
    assert (kept.base, kept.state_partitions, kept.next_watermark) == (1, 2, 42)
    with pytest.raises(CheckpointCorrupt, match="since checkpoint 1: the document has 1"):
        restored_engine(replace(document, engine_has_state=True, checkpoint_id=1))


def test_the_query_keeps_its_id_over_rebuilds(tmp_path: Path) -> None:
    rebuild(tmp_path, job_uid="u", checkpoint_id=0, engine=EngineState(), sources=1)
    first = (tmp_path / "metadata").read_text()
    rebuild(tmp_path, job_uid="u", checkpoint_id=4, engine=EngineState(), sources=1)
    assert (tmp_path / "metadata").read_text() == first


def document(engine: EngineState, checkpoint_id: int, *, state: bool = True) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid="u", attempt=1, checkpoint_id=checkpoint_id, created_at="", parallelism=1, prefix="p",
        engine=encode_engine(engine), engine_has_state=state,
    )  # fmt: skip


def test_a_lost_batch_is_run_again_with_its_state_and_watermarks(tmp_path: Path) -> None:
    """It was batch 3 and the first that the watermark 42 was for; late is what is before the previous watermark."""
    engine = EngineState(9, '{"batchWatermarkMs":42,"conf":{"a":"b"}}', base=5, watermark=77, previous_watermark=30)
    again = undone(document(engine, 9))
    assert (again.checkpoint_id, again.engine_has_state) == (9, True)
    restored = restored_engine(again)
    assert restored == EngineState(9, '{"batchWatermarkMs":30,"conf":{"a":"b"}}', base=6, watermark=42)
    assert again.checkpoint_id - restored.base == 3, "the version of the state"
    rebuild(tmp_path, job_uid="u", checkpoint_id=9, engine=restored, sources=1)
    assert sorted(p.name for p in (tmp_path / "offsets").iterdir()) == ["1", "2"]
    assert watermark_before(LocalQueryFolder(tmp_path), 3) == 30
    assert (tmp_path / "commits" / "2").read_text() == 'v1\n{"nextBatchWatermarkMs": 42}'


def test_operators_whose_first_batch_is_lost_have_no_state() -> None:
    again = undone(document(EngineState(1, '{"batchWatermarkMs":0}', base=5, watermark=77, previous_watermark=0), 6))
    assert not again.engine_has_state
    assert restored_engine(again) == EngineState(plan=1, base=6)


def test_a_lost_batch_without_state_changes_nothing_of_the_engine() -> None:
    lost = document(EngineState(1), 6, state=False)
    assert undone(lost) == lost


def test_a_document_that_does_not_say_what_its_batch_began_with_stops_the_job() -> None:
    with pytest.raises(StateUncertain, match="the query state is ahead of the records: checkpoint 6 was lost"):
        undone(document(EngineState(1, base=2), 6))


def test_there_is_no_watermark_before_the_first_batch_of_a_query(tmp_path: Path) -> None:
    assert watermark_before(LocalQueryFolder(tmp_path), 0) == 0
