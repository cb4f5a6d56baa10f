"""Creates the class archive of the image: the classes that a job's JVMs load, parsed and verified ahead of time.

The start of a driver or executor is mostly the JVM loading some fifteen thousand classes. The archive (JEP 310) halves
its CPU. The image's build runs ``class_archive.py FOLDER``, which writes ``FOLDER/classes.jsa`` and
``FOLDER/classpath``. The archive is valid for JVMs whose class path begins with that class path. Any other JVM ignores
it. The classes are those that a small Spark job loads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

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


def main(folder: Path) -> None:
    """Finds the classes, then archives them.

    :param folder: of the archive and its class path.
    :raises SystemExit: no executor started, so most of the classes were not found.
    :raises subprocess.CalledProcessError: the JVM did not create an archive.
    """
    home = Path(pyspark.__file__).parent
    classpath = ":".join(str(jar) for jar in sorted((home / "jars").glob("*.jar")))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        classes = _classes(home, work)
        wanted = work / "classes.list"
        wanted.write_text("\n".join(sorted(classes)))
        folder.mkdir(parents=True, exist_ok=True)
        archive = ["-Xshare:dump", f"-XX:SharedClassListFile={wanted}", f"-XX:SharedArchiveFile={folder}/classes.jsa"]
        _run(["java", *archive, "-cp", classpath], work / "dump.log", check=True)
    (folder / "classpath").write_text(classpath)
    (folder / "classes.jsa").chmod(0o644)
    size = (folder / "classes.jsa").stat().st_size
    print(f"{len(classes)} classes found, archive of {size / 1e6:.0f} MB")


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
    starts = [json.dumps(common | options) for options in _STARTS]
    _run([sys.executable, "-c", WARM_UP, str(work), *starts], work / "start.log", environment=environment)
    if not (work / "executor.list").exists():
        sys.exit((work / "start.log").read_text(errors="replace"))
    return {
        line
        for file in work.glob("*.list")
        for line in file.read_text(errors="replace").splitlines()
        # The name alone does not identify classes of loaders other than the JVM's own.
        if line and not line.startswith("#") and "source:" not in line
    }


def _run(command: list[str], log: Path, *, check: bool = False, environment: Mapping[str, str] | None = None) -> None:
    with log.open("wb") as output:
        done = subprocess.run(
            command, env=environment, cwd=log.parent, stdout=output, stderr=subprocess.STDOUT, check=False, timeout=900
        )
    if check and done.returncode != 0:
        sys.stderr.write(log.read_text(errors="replace")[-4000:])
        raise subprocess.CalledProcessError(done.returncode, command[0])


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


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
