"""``kafkaspark validate`` imports the code of a job, and Spark plans its transform."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from kafkaspark.__main__ import main
from tests.support.jobs.local_job import environment
from tests.support.kubernetes.operator_fixture import job_body

pytestmark = pytest.mark.spark

JSON = {"topics": ["orders"], "format": {"value": "json", "valueSchema": "id BIGINT, at TIMESTAMP"}}
CODE = {
    "good.py": "def go(source):\n    return source.select('key', source.value.id.cast('string').alias('value'))\n",
    "typo.py": "def go(source):\n    return source.select('nothing')\n",
    "broken.py": "import json,\n",
    "column.py": "def go(source):\n    return source.select('value.idd')\n",
    "minutes.py": "def go(source):\n    return source.groupBy('value.id').count().selectExpr('id AS value')\n",
    "raises.py": "def go(source):\n    raise ValueError('not today')\n",
    "packages.py": "import a_package_of_the_image\ndef go(source):\n    return source\n",
}


def python(module: str, **spec: Any) -> dict[str, Any]:
    return {"source": JSON, "transform": {"python": {"function": f"{module}:go"}}, **spec}


def arrow(module: str) -> dict[str, Any]:
    return {"engine": "Continuous", "transform": {"arrow": {"function": f"{module}:go"}}}


def unfit(engine: str) -> dict[str, Any]:
    sink = {"topic": "out", "format": {"value": "string"}}
    return {"engine": engine, "sink": sink, "transform": {"sql": {"query": "SELECT timestamp AS value FROM source"}}}


JOIN = """
from pyspark.sql import functions as f

def go(source):
    rows = source.select("topic", "value.*"){both}
    left = rows.where("topic = 'orders'").select("id", "at"){left}
    right = rows.where("topic = 'payments'").selectExpr("id AS number", "at AS paid")
    return left.join(right, f.expr("id = number{within}"), "{kind}").selectExpr("CAST(id AS STRING) AS value")
"""
WITHIN = " AND paid BETWEEN at AND at + INTERVAL 1 HOUR"
ROWS = "the join of two streams keeps each row of "


def watermark(column: str) -> str:
    return f".withWatermark('{column}', '1 minute')"


def join(*, kind: str = "inner", both: str = "", left: str = "", within: str = WITHIN) -> str:
    return JOIN.format(kind=kind, both=both, left=left, within=within)


def keyed(steps: str, result: str = "CAST(id AS STRING) AS value") -> str:
    return f"def go(source):\n    return source.select('value.*'){steps}.selectExpr('{result}')\n"


UPDATE = {"outputMode": "update"}
GROWING: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "join": (join(), {}, [f"{ROWS}both sides for ever: "]),
    "join_without_times": (join(both=watermark("at"), within=""), {}, [f"{ROWS}both sides for ever: "]),
    "join_with_a_watermark_of_a_side": (join(left=watermark("at")), {}, [f"{ROWS}both sides for ever: "]),
    "join_of_an_open_range": (
        join(both=watermark("at"), within=" AND paid >= at"), {}, [f"{ROWS}its left side for ever: "],
    ),
    "bounded_join": (join(both=watermark("at")), {}, []),
    "bounded_outer_join": (join(kind="left", both=watermark("at")), {}, []),
    "counts": (keyed(".groupBy('id').count()"), UPDATE, ["the aggregation by id keeps each key for ever: "]),
    "counts_with_a_watermark": (
        keyed(f"{watermark('at')}.groupBy('id').count()"), UPDATE, ["the aggregation by id keeps each key for ever: "],
    ),
    "total": (keyed(".groupBy().count()", "CAST(count AS STRING) AS value"), UPDATE, []),
    "times": (keyed(f"{watermark('at')}.groupBy('at').count()", "CAST(at AS STRING) AS value"), UPDATE, []),
    "duplicates": (keyed(".dropDuplicates(['id'])"), {}, ["dropDuplicates by id keeps each key for ever: "]),
    "duplicates_of_times": (keyed(f"{watermark('at')}.dropDuplicates(['id', 'at'])"), {}, []),
    "duplicates_of_a_while": (keyed(f"{watermark('at')}.dropDuplicatesWithinWatermark(['id'])"), {}, []),
}  # fmt: skip
"""Code of a transform, the rest of its section, and how the warnings begin."""


def test_an_operator_that_never_forgets_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark runs such operators without a word. Seen: a join without a watermark was valid, and kept every row."""
    bodies = []
    for name, (code, mode, _) in GROWING.items():
        (tmp_path / f"{name}.py").write_text(code)
        spec = python(name, checkpoint={"stateVolume": {"claimName": "state"}})
        spec["transform"] |= mode
        bodies.append(job_body(**spec))
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    with patch.dict(os.environ, environment()):
        assert main(["validate", "--output", "json", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)
    begins = [[text[: text.index(": ") + 2] for text in verdict.get("warnings", ())] for verdict in found]
    assert dict(zip(GROWING, begins, strict=True)) == {name: expected for name, (*_, expected) in GROWING.items()}


def test_each_job_is_planned_in_one_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    joins = {f"{kind}_join.py": join(kind=kind) for kind in ("inner", "left")}
    for name, text in {**CODE, **joins}.items():
        (tmp_path / name).write_text(text)
    bad_schema = {"topics": ["orders"], "format": {"value": "json", "valueSchema": "id BIGINT, at TIMESTEMP"}}
    query = "SELECT DISTINCT CAST(value.id AS STRING) AS value FROM source"
    specs = [
        python("good"), python("typo"), python("broken"), python("raises"), python("packages"),
        python("packages", image="mine:1"),
        {"source": JSON, "transform": {"sql": {"query": "SELECT valeu FROM source"}}},
        {"source": JSON, "transform": {"sql": {"query": query}}},
        arrow("good"), arrow("broken"), {},
        {**python("good"), "source": bad_schema}, python("column"), python("minutes"),
        *(python(f"{kind}_join", checkpoint={"stateVolume": {"claimName": "state"}}) for kind in ("inner", "left")),
        *(unfit(engine) for engine in ("Continuous", "MicroBatch")),
    ]  # fmt: skip
    file = tmp_path / "jobs.yaml"
    bodies = [job_body(**spec) for spec in specs]
    for body, spec in zip(bodies, specs, strict=True):
        if "image" not in spec:
            body["spec"].pop("image", None)
    file.write_text(yaml.safe_dump_all(bodies))
    with patch.dict(os.environ, environment()):
        assert main(["validate", "--output", "json", str(file)]) == 1
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    good, typo, broken, raises, packages, image, sql, distinct, arrow_good, arrow_broken, plain, *others = found
    assert (good["planned"], arrow_good["planned"], "planned" in plain) == (True, True, False)
    assert "nothing" in typo["message"]
    *refused, inner, left, _, _ = others
    schema, column, minutes = (each["message"] for each in refused)
    # Spark's own error was about BIGINT.
    assert 'is not a schema: [UNSUPPORTED_DATATYPE] Unsupported data type "TIMESTEMP"' in schema
    assert column.endswith("(column.py:2 in go)")
    assert minutes.endswith("or set spec.transform.outputMode: update")
    # PySpark writes each error with the JVM's stack, 10 KB in a line.
    assert "org.apache.spark" not in printed.err
    for each in (broken, arrow_broken):
        assert "module 'broken' of spec.transform" in each["message"]
        assert "broken.py, line 1" in each["message"]
    assert "ValueError: not today" in raises["message"]
    assert "No module named 'a_package_of_the_image'" in packages["message"]
    assert (image["valid"], image["planned"], "image of the job may have it" in image["notPlanned"]) == (
        True, False, True,
    )  # fmt: skip
    assert "valeu" in sql["message"]
    assert "the transform cannot run on a stream" in distinct["message"]
    assert [each["valid"] for each in (good, typo, sql, distinct)] == [True, False, False, False]
    assert (inner["valid"], inner["warnings"]) == (
        True,
        [f"{ROWS}both sides for ever: declare withWatermark on both sides, and join on a range of their times"],
    )
    assert "the transform cannot run on a stream: " in left["message"]
    assert "watermark" in left["message"]
    unfits = others[-2:]
    assert [each["valid"] for each in unfits] == [False, False]
    assert len({each["message"] for each in unfits}) == 1, "both engines say the same"
    assert "InvalidTransform: column value is TIMESTAMP, and string takes" in unfits[0]["message"]
