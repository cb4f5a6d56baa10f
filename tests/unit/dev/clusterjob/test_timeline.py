"""The text of a timeline has the records of each second, and is a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from clusterjob.timeline import Row, timeline
from pictures import draw


def test_records_are_counted_by_the_second_from_the_first_second_shown() -> None:
    row = Row(
        title="a job", timestamps=[99_999, 100_000, 100_999, 102_500, 103_000], marks={101.5: "a kill"},
        since=100.0, until=103.0,
    )  # fmt: skip
    text = timeline("Output", "About it.", [row])
    assert "row a job\nrates 2 0 1\nmark 1.5 a kill\n" in text
    words = [each.text for each in ElementTree.fromstring(draw(text)).iter() if each.text]
    assert {"Output", "About it.", "a job", "a kill"} <= set(words)


def test_a_bar_is_as_high_as_its_share_of_the_rows_highest() -> None:
    row = Row(title="a job", timestamps=[*range(0, 1000, 10), *range(2000, 3000, 20)], marks={}, since=0.0, until=3.0)
    text = timeline("Output", "About it.", [row])
    assert "rates 100 0 50" in text
    bars = next(line for line in draw(text).splitlines() if 'class="bars"' in line)
    assert [float(part.split("h")[0]) for part in bars.split("v-")[1:]] == [90.0, 45.0]
