"""What the sparkapp image runs for each of its arguments, with a stand-in for tini that prints its arguments."""

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from localcluster.settings import REPOSITORY

ENTRYPOINT = REPOSITORY / "images" / "sparkapp" / "entrypoint"
EXECUTOR = {
    "SPARK_HOME": "/spark",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
    "KAFKASPARK_DRIVER_WAIT_SECONDS": "0",
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


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_executor_waits_until_the_network_admits_it(path: str, host: str) -> None:
    """Seen: kube-router admitted new pods late. Spark's executors ended at once, twenty of them, and so the attempt."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.socket(family)
        listener.bind((host.strip("[]"), 0))
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listener:
        # Bound, and not listening: connections are refused.
        url = f"spark://CoarseGrainedScheduler@{host}:{listener.getsockname()[1]}"
        variables = {"PATH": path, **EXECUTOR, "SPARK_DRIVER_URL": url, "KAFKASPARK_DRIVER_WAIT_SECONDS": "60"}
        with subprocess.Popen([ENTRYPOINT, "executor"], env=variables, stdout=subprocess.PIPE, text=True) as executor:
            time.sleep(1)
            assert executor.poll() is None
            listener.listen()
            printed, _ = executor.communicate(timeout=30)
    arguments = json.loads(printed)
    assert arguments[arguments.index("--driver-url") + 1] == url


def test_an_executor_that_is_never_admitted_says_so_and_leaves_the_error_to_spark(path: str) -> None:
    done = subprocess.run(
        [ENTRYPOINT, "executor"], env={"PATH": path, **EXECUTOR}, capture_output=True, text=True, check=True
    )
    assert "the driver takes no connection at 127.0.0.1:1 for 0 s" in done.stderr
    assert "--driver-url" in done.stdout


def test_an_executor_that_waits_ends_by_a_signal(path: str) -> None:
    variables = {"PATH": path, **EXECUTOR, "KAFKASPARK_DRIVER_WAIT_SECONDS": "60"}
    with subprocess.Popen([ENTRYPOINT, "executor"], env=variables, stdout=subprocess.PIPE) as executor:
        time.sleep(1)
        executor.terminate()
        assert executor.wait(timeout=30) == 143


def test_anything_else_is_a_command(path: str) -> None:
    assert run(path, "tini", "hello") == ["hello"]
