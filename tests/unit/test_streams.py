"""The streams of ``make test`` leave no test out and run none twice."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.streams import BY_HAND, ROOT, Stream, due, streams
from tests.thorough import OF_EVERY_COMMIT, THOROUGH

if TYPE_CHECKING:
    import pytest


@dataclass
class FakeStream(Stream):
    """A stream of which the test says how far it is."""

    begun: bool = False
    ended: bool = False

    @property
    def began(self) -> bool:
        return self.begun

    @property
    def status(self) -> int | None:
        return 0 if self.ended else None


def test_every_file_is_in_one_stream_or_run_by_hand() -> None:
    found: Counter[str] = Counter()
    for stream in streams(is_every=True):
        ignored = [each.removeprefix("--ignore=") for each in stream.what if each.startswith("--ignore=")]
        for place in stream.what:
            if place.startswith("--"):
                continue
            files = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("test_*.py")
            names = [str(file.relative_to(ROOT)) for file in files]
            found.update(name for name in names if not any(f"{name}/".startswith(f"{each}/") for each in ignored))
    there = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")}
    by_hand = {name for name in there if name.startswith(f"{BY_HAND}/")}
    assert by_hand
    assert found == Counter(there - by_hand)


def test_every_choice_of_thorough_tests_is_of_tests_that_exist() -> None:
    for name in (*THOROUGH, *OF_EVERY_COMMIT):
        file, _, function = name.partition("::")
        found = [ROOT / file] if file.endswith(".py") else [*ROOT.glob(f"{file}*")]
        assert found, name
        texts = [each.read_text() for each in found if each.is_file()]
        assert not function or f"def {function.partition('[')[0]}" in "".join(texts), name
    assert not [name for name in OF_EVERY_COMMIT if not name.startswith(THOROUGH)]


def test_the_clusters_stages_come_first_next_to_one_patient_stream_at_a_time() -> None:
    every = [
        FakeStream("stories", [], stage=1), FakeStream("jobs", [], stage=1), FakeStream("operator", [], stage=2),
        FakeStream("first", [], patient=True),
        FakeStream("second", [], patient=True),
        *(FakeStream(f"other-{number}", []) for number in range(8)),
    ]  # fmt: skip

    def begin() -> list[str]:
        found = due(every)
        for each in found:
            each.begun = True  # type: ignore[attr-defined]
        return [each.name for each in found]

    stories, jobs, operator, first, second, *others = every
    assert begin() == ["stories", "jobs", "first"]
    assert begin() == []
    stories.ended = True
    assert begin() == ["other-0", "other-1", "other-2"]
    first.ended = True
    assert begin() == ["second"]
    jobs.ended = True
    assert begin() == ["operator"]
    others[0].ended = True
    assert begin() == ["other-3"]
    operator.ended = True
    assert begin() == ["other-4", "other-5"]
    second.ended = others[1].ended = True
    assert begin() == ["other-6", "other-7"]
    assert begin() == []


def test_a_stream_that_failed_tells_its_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.streams.ARTIFACTS", tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    test = tmp_path / "test_it.py"
    test.write_text("def test_passes(): pass\ndef test_fails(): assert 0\ndef test_breaks(missing): pass\n")
    failing = Stream("failing", [str(test), f"--rootdir={tmp_path}", "-c", os.devnull, "-ra"])
    silent = Stream("silent", [str(tmp_path / "nothing.py"), "-c", os.devnull])
    passing = Stream("passing", [f"{test}::test_passes", f"--rootdir={tmp_path}", "-c", os.devnull])
    for each in (failing, silent, passing):
        each.start()
        while each.status is None:
            time.sleep(0.05)
    assert {Path(name).name for name in failing.failures} == {"test_it.py::test_fails", "test_it.py::test_breaks"}
    assert silent.failures == ["silent ended with status 4"]
    assert passing.failures == []


def test_only_a_stream_that_failed_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tests.streams.ARTIFACTS", tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    test = tmp_path / "test_it.py"
    test.write_text("import tempfile\ndef test_passes(): tempfile.mkstemp()\ndef test_fails(): assert 0\n")
    passing, failing = (Stream(name, [f"{test}::test_{name}", "-c", os.devnull]) for name in ("passes", "fails"))
    for each in (passing, failing):
        each.start()
        assert list(temporary.iterdir())
        while each.status is None:
            time.sleep(0.05)
        assert [str(left) for left in temporary.iterdir()] == ([each.temporary] if each is failing else [])
    assert failing.cost.endswith(f"its files are in {failing.temporary}")
