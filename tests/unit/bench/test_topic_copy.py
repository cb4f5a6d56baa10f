"""The rounds of benches that copy a topic."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from bench.topic_copy import Run, interleaved


def test_runs_are_collected_by_contestant_in_the_order_of_the_rounds() -> None:
    begun: list[str] = []

    def runs(order: str, started: float) -> Iterator[tuple[str, Run]]:
        for name in order:
            begun.append(name)
            yield name, Run(started, (started + 1, started + 2), (10, 20))

    progress = StringIO()
    found = interleaved([runs("ab", 1.0), runs("ba", 2.0)], progress)
    assert begun == ["a", "b", "b", "a"]
    assert {name: [run.started for run in each] for name, each in found.items()} == {"a": [1.0, 2.0], "b": [1.0, 2.0]}
    lines = progress.getvalue().splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["round", "1", "a"], ["round", "1", "b"], ["round", "2", "b"], ["round", "2", "a"],
    ]  # fmt: skip
    assert lines[0].split()[3:] == ["whole", "15/s", "warm", "20/s"]
