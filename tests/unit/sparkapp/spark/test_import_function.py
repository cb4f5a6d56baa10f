"""A function of the user's that cannot be had is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkapp.model.errors import TransformError
from sparkapp.model.job.sections.transform import Transform
from sparkapp.spark.frames.transform import import_function


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "users_own.py").write_text("def other(frame):\n    return frame\n\n\nnumber = 42\n")
    (tmp_path / "users_import.py").write_text("import nowhere\n")
    return "users_own"


def test_the_function_is_imported_by_its_name(module: str) -> None:
    function = import_function(Transform(function=f"{module}:other"))
    assert function is not None
    assert function.__name__ == "other"
    assert import_function(Transform()) is None


@pytest.mark.parametrize("name", ["transform", "number"])
def test_a_module_without_the_function_is_refused(module: str, name: str) -> None:
    with pytest.raises(TransformError, match=f"module 'users_own' has no function '{name}'"):
        import_function(Transform(function=f"{module}:{name}"))


def test_a_module_that_does_not_import_is_refused_with_its_own_message(module: str) -> None:
    with pytest.raises(TransformError, match="does not import: ModuleNotFoundError: No module named 'nowhere'"):
        import_function(Transform(function="users_import:transform"))
