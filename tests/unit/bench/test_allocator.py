"""Benches have the allocator of the image, and the image has its library."""

from __future__ import annotations

import pytest

from bench.allocator import allocator
from imagerelease import debian_lock
from localcluster.machine import packages


def test_the_variables_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "ensure", lambda *_: None)
    variables = allocator()
    assert sorted(variables) == ["LD_PRELOAD", "MALLOC_CONF"]
    assert variables["LD_PRELOAD"] == "libjemalloc.so.2"
    assert "tcache_nslots_small_max" in variables["MALLOC_CONF"]
    assert packages.ALLOCATOR.package in debian_lock.wanted(debian_lock.LOCKS / "sparkapp.sha256")
