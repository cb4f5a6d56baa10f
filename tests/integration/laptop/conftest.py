"""A Spark that ``kafkaspark.testing`` starts in this process, for a module of tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest

from kafkaspark import testing
from tests.support.jobs.local_job import environment


@pytest.fixture(scope="module")
def run_transform() -> Iterator[Callable[..., testing.Output]]:
    """:func:`kafkaspark.testing.run_transform`, whose JVM starts as those of other tests do."""
    with patch.dict(os.environ, environment()):
        yield testing.run_transform
        testing.stop_spark()
