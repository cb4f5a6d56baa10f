"""The examples of docs/write-a-transform.md work as they are printed, with plain PySpark and pyarrow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.jobs.local_job import QUICK_JVM

GUIDE = Path(__file__).resolve().parents[3] / "docs/write-a-transform.md"

pytestmark = pytest.mark.spark


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_printed_test_passes(tmp_path: Path) -> None:
    """The module of the guide, its test, and the SQL query over the same columns."""
    modules = {re.match(r'"""(\w+\.py)"""', text)[1]: text for text in blocks("python")}
    assert set(modules) == {"orders.py", "scores.py", "readings.py", "paid.py", "late.py", "test_orders.py"}
    for name, text in modules.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (query,) = [
        part["transform"]["sql"]["query"] for text in blocks("yaml") if "sql" in str(part := yaml.safe_load(text))
    ]
    with (tmp_path / "test_orders.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\ndef test_the_query(spark):\n"
            "    rows = [(b'a', (1, 'ann')), (b'b', (None, 'bob'))]\n"
            "    source = spark.createDataFrame(rows, 'key BINARY, value STRUCT<id: BIGINT, name: STRING>')\n"
            "    source.createOrReplaceTempView('source')\n"
            f"    assert [row.value for row in spark.sql({query!r}).collect()] == ['" + '{"id":1,"name":"ANN"}' + "']\n"
        )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, env={**os.environ, **QUICK_JVM, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True,
        check=False, timeout=500,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 passed" in ran.stdout
