"""A function of the user's that cannot be had is refused before Spark starts. Code that needs Spark waits for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction

from sparkapp.model.errors import TransformError
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.spark.frames.transform import check_code, import_function
from sparkapp.spark.launch.user_modules import allow_decorators

_TEXT_UDF = """
from pyspark.sql.functions import udf

@udf("string")
def upper(text):
    return text.upper()
"""
_PANDAS_UDF = """
import pandas as pd
from pyspark.sql.functions import pandas_udf

@pandas_udf("string")
def upper(texts: pd.Series) -> pd.Series:
    return texts.str.upper()
"""
_USES_SPARK = {
    "udf": _TEXT_UDF,
    "pandas_udf": _PANDAS_UDF,
    "column": "from pyspark.sql import functions as f\n\nKEY = f.col('key')\n",
    "schema": "from pyspark.sql.types import StructType\n\nSCHEMA = StructType.fromDDL('id INT')\n",
    "active": "from pyspark.sql import SparkSession\n\nspark = SparkSession.active()\n",
    "session": "from pyspark.sql import SparkSession\n\nspark = SparkSession.builder.getOrCreate()\n",
    "context": "from pyspark import SparkContext\n\ncontext = SparkContext()\n",
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "users_own.py").write_text("def other(frame):\n    return frame\n\n\nnumber = 42\n")
    (tmp_path / "users_import.py").write_text("import nowhere\n")
    return "users_own"


@pytest.fixture(params=_USES_SPARK)
def uses_spark(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)  # of another test, whose context has ended
    name = f"users_{request.param}"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / f"{name}.py").write_text(f"{_USES_SPARK[request.param]}\ndef transform(frame):\n    return frame\n")
    return name


def test_the_function_is_imported_by_its_name(module: str) -> None:
    function = import_function(Transform(function=f"{module}:other"))
    assert function is not None
    assert function.__name__ == "other"
    assert import_function(Transform()) is None


@pytest.mark.parametrize("name", ["transform", "number"])
def test_a_module_without_the_function_is_refused(module: str, name: str) -> None:
    with pytest.raises(TransformError, match=f"module 'users_own' of .* has no function '{name}'; it has "):
        check_code(Transform(function=f"{module}:{name}"))


def test_a_module_that_does_not_import_is_refused_with_its_own_message(module: str) -> None:
    with pytest.raises(TransformError, match="does not import: ModuleNotFoundError: No module named 'nowhere'"):
        check_code(Transform(function="users_import:transform"))


def test_a_module_that_uses_spark_while_it_is_imported_waits_for_the_session(uses_spark: str) -> None:
    starts = vars(SparkContext)["_ensure_initialized"]
    check_code(Transform(function=f"{uses_spark}:transform"))
    check_code(Transform(arrow=ArrowTransform(function=f"{uses_spark}:transform")))
    assert uses_spark not in sys.modules, "it is imported again"
    assert SparkContext._active_spark_context is None
    assert vars(SparkContext)["_ensure_initialized"] is starts


def test_an_assertion_of_the_users_is_no_wait_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "users_assert.py").write_text("assert 1 > 2\n")
    with pytest.raises(TransformError, match=r"does not import: AssertionError:  \(users_assert.py:1 in <module>\)"):
        check_code(Transform(function="users_assert:transform"))


@pytest.mark.parametrize("uses_spark", ["udf", "pandas_udf"], indirect=True)
def test_a_worker_imports_decorators_with_a_type_as_text(uses_spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = Transform(function=f"{uses_spark}:upper")
    with pytest.raises(TransformError, match="SESSION_OR_CONTEXT_NOT_EXISTS"):
        import_function(named)
    monkeypatch.setattr(UserDefinedFunction, "returnType", vars(UserDefinedFunction)["returnType"])
    allow_decorators()
    found = import_function(named)
    assert found is not None
    assert vars(found)["returnType"] == "string"
