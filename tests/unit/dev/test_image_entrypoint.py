"""What the sparkapp image runs for each of its arguments, with a stand-in for tini that prints its arguments."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from localcluster.settings import REPOSITORY

ENTRYPOINT = REPOSITORY / "images" / "sparkapp" / "entrypoint"
EXECUTOR = {
    "SPARK_HOME": "/spark",
    "SPARK_DRIVER_URL": "spark://driver",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.88.1.2",
    "SPARK_EXECUTOR_POD_NAME": "exec-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    tini = tmp_path / "tini"
    tini.write_text("#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    tini.chmod(0o755)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def run(path: str, *arguments: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [ENTRYPOINT, *arguments], env={"PATH": path, **environment}, capture_output=True, text=True, check=True
    )
    received: list[str] = json.loads(done.stdout)
    return received


def test_driver(path: str) -> None:
    assert run(path, "driver", "--state", "x") == ["--", "python3", "-m", "sparkapp", "run", "--state", "x"]


def test_executor_has_its_java_options_in_order_and_unbroken(path: str) -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn{number}=a b*" for number in range(12)}
    arguments = run(path, "executor", **EXECUTOR, **options, SPARK_CLASSPATH="/extra.jar", SPARK_CONF_DIR="/conf")
    assert arguments[:3] == ["-s", "--", "java"]
    assert arguments[3:15] == [f"-Dn{number}=a b*" for number in range(12)]
    assert arguments[arguments.index("-cp") + 1] == "/conf:/spark/jars/*:/extra.jar"
    assert arguments[arguments.index("--podName") + 1] == "exec-7"
    assert arguments[arguments.index("--resourceProfileId") + 1] == "0"


def test_executor_without_java_options(path: str) -> None:
    arguments = run(path, "executor", **EXECUTOR)
    assert arguments[:7] == ["-s", "--", "java", "-Dspark.master=k8s://driver", "-Xms512m", "-Xmx512m", "-cp"]


def test_anything_else_is_a_command(path: str) -> None:
    assert run(path, "tini", "hello") == ["hello"]
