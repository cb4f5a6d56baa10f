"""Makes the class archive of the image: what a JVM of a job loads, parsed and verified ahead of time.

Starting driver and executors is mostly the JVM reading some fifteen thousand classes; with the archive (JEP 310) it
takes about half the CPU. Run at the image's build: ``class_archive.py FOLDER`` writes ``FOLDER/classes.jsa`` and
``FOLDER/classpath``. The archive is valid for JVMs whose class path begins with exactly that class path; any other JVM
ignores it. Which classes belong in it is found out by starting Spark as a job does, in miniature.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

WARM_UP = """
import sys
from pyspark.sql import SparkSession, functions as f
master, folder, *options = sys.argv[1:]
builder = SparkSession.builder.master(master)
for option in options:
    name, _, value = option.partition("=")
    builder = builder.config(name, value)
try:
    session = builder.getOrCreate()
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
except Exception as error:
    print(type(error).__name__, str(error)[:300])
"""
"""A job in miniature: a stream, JSON, Python workers fed with Arrow, a shuffle."""


def main(folder: Path) -> None:
    """Finds the classes, then archives them.

    :param folder: where the archive and its class path go.
    :raises SystemExit: no executor started, so most of the classes were not found.
    :raises subprocess.CalledProcessError: the JVM could not make an archive.
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
        # A build container need not know its own name.
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost",
    }  # fmt: skip
    for number, (master, options) in enumerate(_STARTS.items()):
        settings = {
            "spark.driver.extraJavaOptions": f"-XX:DumpLoadedClassList={work}/driver-{number}.list",
            "spark.executor.extraJavaOptions": f"-XX:DumpLoadedClassList={work}/executor-{number}.list",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            **options,
        }
        arguments = [master, str(work), *(f"{key}={value}" for key, value in settings.items())]
        _run([sys.executable, "-c", WARM_UP, *arguments], work / f"start-{number}.log", environment=environment)
    if not list(work.glob("executor-*.list")):
        sys.exit((work / "start-0.log").read_text(errors="replace"))
    return {
        line
        for file in work.glob("*.list")
        for line in file.read_text(errors="replace").splitlines()
        # Classes of loaders other than the JVM's own cannot be found again by their name alone.
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


_STARTS: Mapping[str, Mapping[str, str]] = {
    # With an executor process of its own.
    "local-cluster[1,1,512]": {"spark.executor.memory": "512m"},
    # In vain, but the client of Kubernetes is loaded by then.
    "k8s://https://127.0.0.1:9": {
        "spark.kubernetes.container.image": "none",
        "spark.kubernetes.trust.certificates": "true",
        "spark.kubernetes.driver.connectionTimeout": "2000",
        "spark.kubernetes.requestTimeout": "2000",
    },
}
"""The ways in which Spark is started for its classes."""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
