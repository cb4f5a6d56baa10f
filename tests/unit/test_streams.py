"""The streams of ``make test`` leave no test out and run none twice."""

from __future__ import annotations

from collections import Counter

from tests.streams import ROOT, streams


def test_every_file_outside_the_cluster_is_in_one_stream() -> None:
    found: Counter[str] = Counter()
    for stream in streams():
        ignored = [one.removeprefix("--ignore=") for one in stream.what if one.startswith("--ignore=")]
        for place in stream.what:
            if place.startswith("--ignore="):
                continue
            files = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("test_*.py")
            names = [str(file.relative_to(ROOT)) for file in files]
            found.update(name for name in names if not any(name.startswith(f"{one}/") for one in ignored))
    there = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")}
    assert found == Counter(name for name in there if not name.startswith("tests/e2e/"))
