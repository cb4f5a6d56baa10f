"""A Spark session that judges what this project computes without Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.support.jobs.local_job import QUICK_JVM


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """With the time zone of the jobs' sessions, and this interpreter for the schema of a source in Python."""
    builder: Any = SparkSession.builder
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    with patch.dict(os.environ, QUICK_JVM | python):
        session = (
            builder.master("local[1]").config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC").getOrCreate()
        )  # fmt: skip
    yield session
    session.stop()
