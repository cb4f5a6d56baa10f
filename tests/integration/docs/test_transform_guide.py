"""The examples of docs/write-a-transform.md work as they are printed, by ``kafkaspark.testing`` and plain pyarrow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.jobs.local_job import environment
from tests.support.kubernetes.operator_fixture import job_body

GUIDE = Path(__file__).resolve().parents[3] / "docs/write-a-transform.md"
ROOT = GUIDE.parents[1]
MORE = """
from pathlib import Path

from kafkaspark.testing import Record, run_transform


def test_the_query() -> None:
    names = [Record({"id": 1, "name": "ann"}, key="a"), Record({"id": None, "name": "bob"}, key="b")]
    assert run_transform(Path(__file__).with_name("sql.yaml"), names) == [Record({"id": 1, "name": "ANN"}, key="a")]


def test_the_score_is_the_length() -> None:
    written = run_transform(Path(__file__).with_name("scores.yaml"), [Record("four", key="a"), Record(None, key="b")])
    assert [record.text for record in written] == ["4", "0"]
"""

pytestmark = pytest.mark.spark


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_printed_tests_pass(tmp_path: Path) -> None:
    """The modules of the guide, their tests, and the SQL query over the same columns."""
    modules = {re.match(r'"""(\w+\.py)"""', text)[1]: text for text in blocks("python")}
    assert modules.keys() == {
        "orders.py", "scores.py", "readings.py", "paid.py", "late.py", "test_orders.py", "test_readings.py",
    }  # fmt: skip
    for name, text in {**modules, "test_more.py": MORE}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    parts: list[dict[str, Any]] = [yaml.safe_load(text) for text in blocks("yaml")]
    (orders,) = [part for part in parts if "python" in part.get("transform", {})]
    (query,) = [part for part in parts if "sql" in part.get("transform", {})]
    scores = {"transform": {"python": {"function": "scores:with_score"}}}
    source = {"topics": ["names"], "format": {"value": "json", "valueSchema": "id BIGINT, name STRING"}}
    jobs = {
        "job.yaml": {**orders, "onRecordError": "Skip"}, "sql.yaml": {**query, "source": source}, "scores.yaml": scores,
    }  # fmt: skip
    for name, spec in jobs.items():
        (tmp_path / name).write_text(yaml.safe_dump(job_body(**spec)), encoding="utf-8")
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "-p", "no:cacheprovider",
            "--durations=0", str(tmp_path),
        ],
        cwd=tmp_path, env={**environment(), "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "operator")])},
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 passed" in ran.stdout
