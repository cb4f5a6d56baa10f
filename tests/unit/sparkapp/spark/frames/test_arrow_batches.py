"""When the write stage's Arrow batches are measured: large records, and records of unknown size."""

from __future__ import annotations

import pytest

from sparkapp.dataplane.statistics import FETCHED_BYTES, FETCHED_RECORDS
from sparkapp.spark.frames.arrow_batches import SETTING, UNLIMITED, RecordSizes, limited

ROWS = 16_384


class Conf(dict[str, str]):
    set = dict.__setitem__


class Session:
    def __init__(self, limit: str = UNLIMITED) -> None:
        self.conf = Conf({SETTING: limit, "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS)})


def noted(*totals: tuple[int, int]) -> RecordSizes:
    sizes = RecordSizes()
    for records, size in totals:
        sizes.note({FETCHED_RECORDS: records, FETCHED_BYTES: size})
    return sizes


@pytest.mark.parametrize(
    ("totals", "fits"),
    [
        ([], False),
        ([(0, 0)], False),
        ([(100, 100 * 1024)], True),
        ([(100, 100 * 1025)], False),
        ([(100, 10_000), (110, 10_000 + 10 * 1_000_000)], False),
        ([(100, 100_000_000), (1_100, 100_100_000)], True),
        ([(100, 10_000), (100, 10_000)], True),
    ],
)
def test_the_last_records_show_whether_a_full_batch_is_small(totals: list[tuple[int, int]], fits: bool) -> None:
    assert noted(*totals).fit(ROWS) is fits


@pytest.mark.parametrize(
    ("sizes", "given", "during"),
    [
        (noted(), UNLIMITED, str(16 << 20)),
        (noted((1000, 100_000)), UNLIMITED, UNLIMITED),
        (noted(), "1000", "1000"),
    ],
)
def test_the_limit_holds_for_the_write_stage_alone(sizes: RecordSizes, given: str, during: str) -> None:
    session = Session(given)
    with limited(session, sizes):
        assert session.conf[SETTING] == during
    assert session.conf[SETTING] == given
