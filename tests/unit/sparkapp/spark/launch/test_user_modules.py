"""A user's modules hide no other module, and one that another module would hide is named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkapp.model.errors import TransformError
from sparkapp.spark.frames.user_code import imported
from sparkapp.spark.launch.user_modules import python_path

REPOSITORY = Path(__file__).parents[5]
FUNCTION = "def enrich(source):\n    return source\n"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.setenv("KAFKASPARK_CODE", str(folder))
    before = list(sys.path)
    yield folder
    sys.path[:] = before
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


def function(name: str) -> object:
    return imported(name, field="spec.transform.python.function")


@pytest.mark.parametrize(
    "name",
    ["kafka", "pyspark", "pandas", "yaml", "confluent_kafka", "sparkapp", "py4j", "google", "typing_extensions",
     "logging", "queue", "code", "types", "json", "sys", "_thread", "xml", "__main__"],
)  # fmt: skip
@pytest.mark.parametrize("helper", [False, True], ids=["named by the spec", "helper"])
def test_a_module_with_the_name_of_another_is_named(code: Path, name: str, helper: bool) -> None:
    (code / f"{name}.py").write_text(FUNCTION)
    (code / "own_orders.py").write_text(f"import {name}\n{FUNCTION}")
    with pytest.raises(TransformError) as caught:
        function("own_orders:enrich" if helper else f"{name}:enrich")
    assert caught.value.message == (
        f"Python or a package of the image has a module of the same name as the user's {name}.py (module {name!r})"
    )
    assert caught.value.remedy == (
        f"rename {name}.py in the ConfigMap of spec.transform, for instance to my_{name}.py, and import my_{name};"
        " the job then restarts by itself"
    )
    assert str(code) not in sys.path


def test_all_such_modules_are_named_packages_and_extensions_too(code: Path) -> None:
    for name in ("kafka", "email"):
        (code / name).mkdir()
        (code / name / "enrich.py").write_text(FUNCTION)
    (code / "queue.cpython-311-x86_64-linux-gnu.so").touch()
    (code / "own_orders.py").write_text(FUNCTION)
    with pytest.raises(TransformError) as caught:
        function("own_orders:enrich")
    for file in ("email", "kafka", "queue.cpython-311-x86_64-linux-gnu.so"):
        assert f"{file} (module " in caught.value.message


def test_names_within_a_package_of_the_user_are_free(code: Path) -> None:
    package = code / "own_shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "kafka.py").write_text("from own_shop.logging import WORD\n" + FUNCTION)
    (package / "logging.py").write_text("WORD = 1\n")
    assert callable(function("own_shop.kafka:enrich"))


def test_what_is_no_module_may_have_any_name(code: Path) -> None:
    for name in ("logging.txt", "json", "..data", "queue.json"):
        (code / name).mkdir() if name == "json" else (code / name).touch()
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "logging.cpython-311.pyc").touch()
    (code / "own_orders.py").write_text(FUNCTION)
    assert callable(function("own_orders:enrich"))
    assert callable(function("own_orders:enrich")), "a second function of the same code"


def test_a_folder_on_the_path_with_the_modules_name_does_not_hide_it(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere" / "own_orders").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    (code / "own_orders.py").write_text(FUNCTION)
    assert callable(function("own_orders:enrich"))


def test_a_file_that_comes_later_hides_nothing_from_the_driver(code: Path) -> None:
    (code / "own_orders.py").write_text(FUNCTION)
    function("own_orders:enrich")
    (code / "colorsys.py").write_text("raise RuntimeError('the user')\n")
    sys.modules.pop("colorsys", None)
    assert __import__("colorsys").__file__ != str(code / "colorsys.py")


@pytest.mark.parametrize("name", ["logging", "queue", "json", "pyarrow"])
def test_the_worker_daemon_starts_whatever_modules_the_user_has(code: Path, name: str) -> None:
    """The daemon's first output is its port, and its end that of its input."""
    (code / f"{name}.py").write_text("raise RuntimeError('the user')\n")
    environment = {"KAFKASPARK_CODE": str(code), "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *_spark()])}
    ended = subprocess.run(
        [sys.executable, "-m", "sparkapp.spark.launch.worker_daemon", "pyspark.worker"],
        input=b"", capture_output=True, timeout=300, check=False, env=environment,
    )  # fmt: skip
    assert len(ended.stdout) == 4, ended.stderr.decode()


def _spark() -> list[str]:
    return [entry for entry in sys.path if entry.endswith("site-packages")]


def test_processes_of_the_jvm_find_the_modules(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the process that asks a StatefulProcessor for its state, which Spark starts next to the driver."""
    (code / "my_processor.py").write_text("FOUND = 1\n")
    monkeypatch.setenv("PYTHONPATH", "/first")
    assert python_path() == {"PYTHONPATH": f"/first{os.pathsep}{code}"}
    command = [sys.executable, "-c", "import my_processor"]
    assert subprocess.run(command, env={**os.environ, **python_path()}, check=False).returncode == 0
    monkeypatch.setenv("KAFKASPARK_CODE", str(code / "none"))
    assert python_path() == {}, "a job without modules"
