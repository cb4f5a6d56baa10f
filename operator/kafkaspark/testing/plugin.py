"""pytest's plugin: the fixture ``run_transform``, whose Spark all tests of a run share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkaspark.testing import Output


@pytest.fixture(scope="session")
def run_transform() -> Iterator[Callable[..., Output]]:
    """:func:`kafkaspark.testing.run_transform`. Spark starts with the first job that needs it."""
    from kafkaspark import testing  # not in every run of pytest

    yield testing.run_transform
    testing.stop_spark()
