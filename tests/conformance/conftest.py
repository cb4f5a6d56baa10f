"""The fixture of group S, made once: its tests only read it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kafka.source_fixture import SourceFixture, source_fixture_on


@pytest.fixture(scope="session")
def source_fixture(broker: str) -> Iterator[SourceFixture]:
    with source_fixture_on(broker) as source_fixture:
        yield source_fixture
