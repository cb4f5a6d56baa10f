"""``run_transform`` over jobs of the continuous engine, which need no Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkaspark.local import versions
from kafkaspark.testing import OtherVersions, Record, _warn, run_transform
from sparkapp.model.errors import ConfigurationError, RecordError, TransformError, TransformFailed
from tests.support.kubernetes.operator_fixture import job_body

Job = Callable[..., dict[str, Any]]
IDS = """
import pyarrow as pa
import pyarrow.compute as pc

def ids(batch):
    return batch.set_column(1, "value", pc.struct_field(batch.column("value"), "id").cast(pa.string()))
"""
JSON = {"topics": ["orders"], "format": {"value": "json", "valueSchema": "id BIGINT"}}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """``job(code, function, **spec)``: a resource whose module is in the present folder."""
    monkeypatch.chdir(tmp_path)

    def made(code: str, function: str = "mine:ids", **spec: Any) -> dict[str, Any]:
        (tmp_path / "mine.py").write_text(code)
        spec = {"source": JSON, "sink": {"topic": "out"}, **spec}
        return job_body(engine="Continuous", transform={"arrow": {"function": function}}, **spec)

    return made


def test_records_are_decoded_and_the_results_are_records(job: Job) -> None:
    written = run_transform(job(IDS), [Record({"id": 7}, key="k", headers={"h": "x"}), {"id": None}, None])
    assert written == [Record("7", key="k", headers={"h": "x"}), Record(None), Record(None)]
    assert {record.topic for record in written} == {"out"}


def test_a_record_that_does_not_parse_fails_is_skipped_or_is_a_dead_letter(job: Job) -> None:
    records = [{"id": 1}, "nope", {"id": 2}]
    with pytest.raises(RecordError, match="topic orders, partition 0, offset 1: the value is not JSON"):
        run_transform(job(IDS), records)
    skipped = run_transform(job(IDS, onRecordError="Skip"), records)
    assert (skipped, skipped.skipped) == ([Record("1"), Record("2")], 1)
    diverted = run_transform(job(IDS, onRecordError="DeadLetter", deadLetter={"topic": "dead"}), records)
    assert diverted == [Record("1"), Record("2")]
    assert [(letter.value, letter.topic) for letter in diverted.dead_letters] == [(b"nope", "dead")]


def test_the_record_that_fails_is_named_with_the_line_of_the_code(job: Job) -> None:
    code = "def ids(batch):\n    for value in batch.column(1).to_pylist():\n        1 / value['id']\n    return batch\n"
    with pytest.raises(TransformFailed) as failed:
        run_transform(job(code), [{"id": number - 5} for number in range(20)])
    assert failed.value.message == (
        "topic orders, partition 0, offset 5: ZeroDivisionError: division by zero (mine.py:3 in ids),"
        ' over record 6: {"id":0}'
    )


def test_a_failure_over_all_records_alone_names_none(job: Job) -> None:
    code = "def ids(batch):\n    assert batch.num_rows < 3, 'many'\n"
    with pytest.raises(
        TransformFailed, match=r"many \(mine.py:2 in ids\), for a batch of 3 records and not for its halves$"
    ):
        run_transform(job(code), [{"id": 1}] * 3)


def test_records_for_which_the_function_raises_are_left_out(job: Job) -> None:
    code = IDS.replace("    return", "    [1 / value['id'] for value in batch.column(1).to_pylist()]\n    return")
    records = [{"id": 2}, {"id": 0}, {"id": 3}]
    skipped = run_transform(job(code, onTransformError="Skip"), records)
    assert (skipped, skipped.skipped) == ([Record("2"), Record("3")], 1)
    diverted = run_transform(job(code, onTransformError="DeadLetter", deadLetter={"topic": "dead"}), records)
    assert (diverted, diverted.skipped) == ([Record("2"), Record("3")], 0)
    assert [(letter.json, letter.topic) for letter in diverted.dead_letters] == [({"id": 0}, "dead")]


def test_what_the_sink_cannot_write_is_refused(job: Job) -> None:
    with pytest.raises(TransformError, match="'value' has type struct"):
        run_transform(job("def ids(batch):\n    return batch\n"), [{"id": 1}])


def test_a_watermark_moves_between_checkpoints(job: Job) -> None:
    code = (
        "import pyarrow as pa\n"
        "def ids(batch, context):\n"
        "    return pa.record_batch({'value': [str(context.watermark)] * batch.num_rows})\n"
    )
    source = {"topics": ["orders"], "watermarks": {"maxOutOfOrdernessSeconds": 5}}
    at = [datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC) for second in (10, 20)]
    written = run_transform(job(code, source=source), checkpoints=[[Record("a", timestamp=time)] for time in at])
    assert [record.text for record in written] == ["None", "2026-01-01 12:00:04.999000+00:00"]


def test_a_factory_is_closed(job: Job, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "class Known:\n"
        "    def __call__(self, batch):\n        return None\n"
        "    def close(self):\n        Path('closed').touch()\n"
    )
    body = job(code)
    body["spec"]["transform"] = {"arrow": {"factory": "mine:Known"}}
    assert run_transform(body, [{"id": 1}]) == []
    assert (tmp_path / "closed").exists()


def test_modules_of_one_job_are_not_those_of_the_next(job: Job, tmp_path: Path) -> None:
    body = job(IDS)
    assert run_transform(body, [{"id": 1}]) == [Record("1")]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine.py").write_text("def ids(batch):\n    return None\n")
    (tmp_path / "other/job.json").write_text(__import__("json").dumps(body))
    assert run_transform("other/job.json", [{"id": 1}]) == []
    assert run_transform(body, [{"id": 1}]) == [Record("1")]


def test_a_module_with_the_name_of_another_is_refused(job: Job, tmp_path: Path) -> None:
    body = job(IDS, function="json:loads")
    (tmp_path / "json.py").touch()
    with pytest.raises(TransformError, match=r"a module of the same name as the user's json\.py") as found:
        run_transform(body, [{"id": 1}])
    assert found.value.remedy == "rename json.py, for instance to my_json.py, and import my_json"


def test_variables_of_the_pods_are_set_while_the_job_runs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os\nimport pyarrow as pa\ndef ids(batch):\n    return pa.record_batch({'value': [os.environ['R']]})\n"
    )
    body = job(code, executor={"env": [{"name": "R", "value": "eu"}]})
    assert run_transform(body, [{"id": 1}]) == [Record("eu")]
    assert "R" not in __import__("os").environ
    monkeypatch.setenv("R", "us")
    assert run_transform(body, [{"id": 1}]) == [Record("us")]


def test_a_refused_job_is_the_operators_refusal(job: Job) -> None:
    with pytest.raises(ConfigurationError, match="parallelism"):
        run_transform(job(IDS, parallelism=0), [])


def test_other_versions_than_the_images_are_a_warning(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "IMAGE", {"pyarrow": "1.0.0"})
    _warn.cache_clear()
    with pytest.warns(OtherVersions, match=r"1\.0\.0 in the job image.*pip install pyarrow==1\.0\.0"):
        run_transform(job(IDS), [])
    run_transform(job(IDS), [])  # warned of once
    _warn.cache_clear()
