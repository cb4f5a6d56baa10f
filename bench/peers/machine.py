"""The machine and the versions that figures belong to."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pyspark

from bench.allocator import allocator
from bench.peers.programs import flink_cluster
from bench.throughput import CONNECTOR
from localcluster.settings import KAFKA_VERSION
from sparkapp import __version__


def environment(options: Mapping[str, Any]) -> dict[str, Any]:
    """Date, machine, versions and options, as JSON.

    :param options: of the bench.
    """
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "memoryGibibytes": _memory_gibibytes()},
        "versions": {
            "kafkaspark": f"{__version__} ({_commit()})",
            "Kafka broker": KAFKA_VERSION,
            "Spark": pyspark.__version__,
            "Spark's Kafka connector": CONNECTOR["org.apache.spark:spark-sql-kafka-0-10_2.13"],
            "Flink": flink_cluster.version(),
            "allocator": allocator()["LD_PRELOAD"],
            "librdkafka": confluent_kafka.libversion()[0],
            "Python": platform.python_version(),
            "Java": _java(),
        },
        "options": dict(options),
    }


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _memory_gibibytes() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _java() -> str:
    text = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', text)
    return found[1] if found else "unknown"


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"
