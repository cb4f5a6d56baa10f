"""The fixture of group S, made once: its tests only read it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.source_site import SourceSite, source_site_on


@pytest.fixture(scope="session")
def source_site(broker: str) -> Iterator[SourceSite]:
    with source_site_on(broker) as site:
        yield site
