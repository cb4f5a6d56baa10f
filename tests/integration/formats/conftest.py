"""A Spark session that judges what this project computes without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.support.jobs.local_job import QUICK_JVM


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """With the time zone of the jobs' sessions."""
    builder: Any = SparkSession.builder
    with patch.dict(os.environ, QUICK_JVM):
        session = (
            builder.master("local[1]").config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC").getOrCreate()
        )  # fmt: skip
    yield session
    session.stop()
