"""Cells of the fault matrix as tests: a part of them in every run, all of them with ``--matrix``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.faults.matrix import cells, overtakings
from tests.integration.faults.rigs import Rigs


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a cell."""
    for name, table in (("cell", cells), ("overtaken", overtakings)):
        if name in metafunc.fixturenames:
            every = metafunc.config.getoption("--matrix")
            chosen = [each for each in table() if each.always or every]
            metafunc.parametrize(name, chosen, ids=[each.name for each in chosen])


@pytest.fixture(scope="module")
def rigs(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rigs]:
    """The brokers that are broken; each starts with its first cell."""
    made = Rigs(tmp_path_factory.mktemp("faults"), broker)
    yield made
    made.close()
