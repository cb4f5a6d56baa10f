"""``classes.list`` and ``laptop.list`` of ``sparkapp/spark/launch/archive``: the classes that JVMs of small jobs load.

The lists are files of the repository, because no two runs load the same classes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pyspark

from localcluster.settings import REPOSITORY

LIST = REPOSITORY / "sparkapp" / "spark" / "launch" / "archive" / "classes.list"
LAPTOP = LIST.with_name("laptop.list")
WARM_UP = """
import json, sys
from pyspark.sql import SparkSession, functions as f
folder, *starts = sys.argv[1:]

def session_of(settings):
    builder = SparkSession.builder
    for name, value in json.loads(settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()

try:
    session = session_of(starts[0])
    rows = session.readStream.format("rate").option("rowsPerSecond", 100).load()
    parsed = rows.select(f.from_json(f.format_string('{"id": %d}', "value"), "id BIGINT").alias("value"))
    result = parsed.select("value.*", f.to_json("value").alias("text")).where("id >= 0")

    def batch(frame, number):
        frame.mapInArrow(lambda batches: batches, frame.schema).collect()
        frame.groupBy("id").count().collect()

    query = result.writeStream.foreachBatch(batch).option("checkpointLocation", folder + "/query").start()
    while len(query.recentProgress) < 2 and query.isActive:
        query.awaitTermination(1)
    query.stop()
    session.stop()
    session_of(starts[1])
except Exception as error:
    print(type(error).__name__, str(error)[:300])
"""
"""A small job: a stream, JSON, Python workers with Arrow, a shuffle; then a start on Kubernetes, which fails."""


def write_class_list() -> None:
    """Runs the small job and writes the classes that its JVMs load.

    :raises SystemExit: no executor started, so most of the classes were not found.
    """
    home = Path(pyspark.__file__).parent
    with tempfile.TemporaryDirectory() as work:
        classes = _classes(home, Path(work))
    title = f"# The classes that a job's JVMs load, with pyspark {version('pyspark')}. Written by make class-list."
    _write(LIST, title, classes)


def write_laptop_list() -> None:
    """Runs the tests of ``kafkaspark init``, and writes the classes that their JVM loads and :data:`LIST` has not.

    :raises SystemExit: a test fails.
    """
    with tempfile.TemporaryDirectory() as work:
        log, loaded = Path(work) / "log", Path(work) / "loaded.list"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "operator")]),
            "KAFKASPARK_CLASSES": "",  # a JVM with an archive does not list what is in it
            "JDK_JAVA_OPTIONS": f"-XX:DumpLoadedClassList={loaded}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        for template in _TEMPLATES:
            _run([sys.executable, "-m", "kafkaspark", "init", template, "--template", template], log, environment)
        tests = ["-m", "pytest", "--import-mode=importlib", "--rootdir", work, "-p", "kafkaspark.testing.plugin"]
        if _run([sys.executable, *tests, work], log, environment):
            sys.exit(log.read_text(errors="replace"))
        classes = _listed([loaded]) - set(LIST.read_text(encoding="utf-8").splitlines())
    title = f"# What a laptop's JVM loads, too, with pyspark {version('pyspark')}. Written by make class-list."
    _write(LAPTOP, title, classes)


def _write(file: Path, title: str, classes: Iterable[str]) -> None:
    lines = [title, *sorted(classes)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{file.name}: {len(lines) - 1} classes")


def _classes(home: Path, work: Path) -> set[str]:
    environment = {
        **os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "HOME": str(work),
        # A build container may not be able to resolve its own name.
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost",
    }  # fmt: skip
    common = {
        "spark.driver.extraJavaOptions": f"{_QUICK} -XX:DumpLoadedClassList={work}/driver.list",
        "spark.executor.extraJavaOptions": f"{_QUICK} -XX:DumpLoadedClassList={work}/executor.list",
        "spark.ui.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    starts = [json.dumps({**common, **options}) for options in _STARTS]
    _run([sys.executable, "-c", WARM_UP, str(work), *starts], work / "start.log", environment)
    if not (work / "executor.list").exists():
        sys.exit((work / "start.log").read_text(errors="replace"))
    return _listed(work.glob("*.list"))


def _listed(files: Iterable[Path]) -> set[str]:
    return {
        line
        for file in files
        for line in file.read_text(errors="replace").splitlines()
        # The name alone does not identify classes of loaders other than the JVM's own.
        # The name of a handler of JFR has the time.
        if line and not line.startswith(("#", "jdk/jfr/internal/handlers/")) and "source:" not in line
    }


def _run(command: list[str], log: Path, environment: Mapping[str, str]) -> int:
    with log.open("wb") as output:
        done = subprocess.run(
            command, env=environment, cwd=log.parent, stdout=output, stderr=subprocess.STDOUT, check=False, timeout=900
        )
    return done.returncode


_TEMPLATES = ("sql", "python", "stateful", "join")
"""Of ``kafkaspark init``: those that start a JVM."""

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that run for seconds: the loaded classes do not depend on the compiler."""

_STARTS: Sequence[Mapping[str, str]] = (
    # With an executor in its own process.
    {"spark.master": "local-cluster[1,1,512]", "spark.executor.memory": "512m"},
    # Fails, after it has loaded the client of Kubernetes. In the same JVM, because a second JVM would start slowly.
    {
        "spark.master": "k8s://https://127.0.0.1:9",
        "spark.kubernetes.container.image": "none",
        "spark.kubernetes.trust.certificates": "true",
        "spark.kubernetes.driver.connectionTimeout": "2000",
        "spark.kubernetes.requestTimeout": "2000",
    },
)
