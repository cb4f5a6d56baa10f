"""Every test of the batch path runs over both implementations, with the same expectations."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sparkapp.dataplane.batch import SWITCH
from tests.support.native.batch_path import BatchPath


@pytest.fixture(params=["native", "plain"])
def path(request: pytest.FixtureRequest, broker: str) -> Iterator[BatchPath]:
    """Opens consumers and producers of one implementation and closes them with the test.

    Where the extension is not built its tests fail, rather than pass unseen; ``KAFKASPARK_NATIVE=0`` skips them.
    """
    if request.param == "native" and os.environ.get(SWITCH) == "0":
        pytest.skip(f"{SWITCH}=0")
    opened = BatchPath(request.param, broker)
    yield opened
    opened.close()
