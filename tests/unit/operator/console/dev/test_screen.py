"""What ``kafkaspark dev`` prints of a round."""

from __future__ import annotations

import pytest

from kafkaspark.dev.screen import Screen
from kafkaspark.local.output import Output
from kafkaspark.local.records import Record


def test_a_round_has_its_records_and_its_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output += [Record({"id": 1}, "a", topic="out"), Record({"id": 2}, "b", topic="out")]
    output.late, output.warnings = 3, ("the join keeps each row",)
    Screen(rows=1, as_json=False).wrote(output, read=4, seconds=2.0)
    printed = capsys.readouterr()
    assert printed.out == 'out a: {"id":1}\n'
    assert printed.err.splitlines() == [
        "… and 1 records more; --rows 0 shows all",
        "warning: the join keeps each row",
        "4 records read, 2 written, 3 late rows dropped in 2.0 s, 2 records a second",
    ]
