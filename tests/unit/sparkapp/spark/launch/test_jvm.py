"""Where PySpark finds the JVM that was started before it was imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkapp.spark.launch.jvm import Jvm, forget_gateway
from tests.support.patience import PATIENCE

SETTINGS = {"spark.master": "local[2]", "spark.driver.defaultJavaOptions": "-Xss1m -Dword='two words'"}
TELLS = """#!/bin/sh
for argument in "$@"; do echo "$argument" >> "$SPARK_HOME/arguments"; done
printf '\\000\\000\\145\\061\\000\\000\\000\\006secret' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
echo "$PATH" > "$SPARK_HOME/path"
cat > "$SPARK_HOME/input"
"""


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    (tmp_path / "bin").mkdir()
    return tmp_path


def submit(spark_home: Path, program: str) -> None:
    file = spark_home / "bin" / "spark-submit"
    file.write_text(program)
    file.chmod(0o755)


def test_pyspark_gets_the_address_and_nobody_else(spark_home: Path) -> None:
    submit(spark_home, TELLS)
    jvm = Jvm(SETTINGS, {"PATH": f"/first:{os.environ['PATH']}", "PYSPARK_PYTHON": "python3"})
    jvm.await_gateway()
    assert (os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]) == (str(0x6531), "secret")
    forget_gateway()
    assert not {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"} & set(os.environ)
    arguments = (spark_home / "arguments").read_text().splitlines()
    pairs = [f"{name}={value}" for name, value in SETTINGS.items()]
    assert arguments == ["--conf", pairs[0], "--conf", pairs[1], "pyspark-shell"]
    assert jvm.python == "python3"
    # Its input ends with this process, and the JVM with it.
    process = jvm._process
    assert process.poll() is None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    assert (spark_home / "path").read_text().startswith("/first:")


def test_where_the_jvm_ends_pyspark_gets_no_address_and_starts_a_jvm_itself(spark_home: Path) -> None:
    submit(spark_home, "#!/bin/sh\nexit 1\n")
    jvm = Jvm(SETTINGS, {})
    jvm.await_gateway()
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    assert jvm.exit_status(PATIENCE) is None, "the attempt has PySpark's JVM, and no later failure is this one's"


def test_the_end_of_the_jvm_that_pyspark_uses_has_its_status(spark_home: Path) -> None:
    submit(spark_home, TELLS)
    jvm = Jvm(SETTINGS, {})
    jvm.await_gateway()
    assert jvm.exit_status(0.01) is None
    jvm._process.kill()
    assert jvm.exit_status(PATIENCE) == -9
