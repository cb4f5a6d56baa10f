"""Lines of a log for the eye."""

from __future__ import annotations

import json

from kafkaspark.look.logs import readable


def test_a_line_of_json_becomes_text_with_its_exception_below() -> None:
    entry = {"time": "T", "level": "ERROR", "logger": "a.b", "message": "broken", "exception": "Traceback\n  x = 1"}
    assert list(readable([json.dumps(entry)])) == ["T ERROR   a.b: broken", "    Traceback", "      x = 1"]


def test_other_lines_stay_but_for_control_characters() -> None:
    assert list(readable(["what a transform prints", '{"no": "message"}', "[1]", "\x1b[31mred\ttab"])) == [
        "what a transform prints",
        '{"no": "message"}',
        "[1]",
        " [31mred\ttab",
    ]
