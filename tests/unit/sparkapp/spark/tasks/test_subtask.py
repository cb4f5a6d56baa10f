"""The producer of a subtask's next checkpoint: when it is opened, and that an end gives it up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.model.errors import KafkaUnreachable
from sparkapp.spark.tasks import subtask
from sparkapp.spark.tasks.write_task import WriteOrder

ORDER = WriteOrder(
    checkpoint_id=7, subtask=1, next_free=0, settled=6, writes_what_it_reads=True, ranges=(), group_id="g"
)
RECORDS = pa.record_batch({"value": [b"a"]})


@pytest.mark.parametrize(
    ("order", "batches", "opened"),
    [
        (ORDER, [RECORDS, RECORDS], ["written", 8, "written"]),
        (ORDER, [RECORDS[:0], RECORDS], ["written", "written", 8]),
        (ORDER, [RECORDS[:0]], ["written"]),
        (replace(ORDER, group_id=None), [RECORDS], ["written"]),
    ],
    ids=["behind the first record", "an empty batch begins no transaction", "not without a transaction",
         "not where no offset proves an outcome"],
)  # fmt: skip
def test_the_next_producer_is_opened_when_a_transaction_has_begun(
    order: WriteOrder, batches: list[pa.RecordBatch], opened: list[int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int | str] = []
    monkeypatch.setattr(subtask, "writer_for", lambda job, order: SimpleNamespace(prepare_next=found.append))
    job: Any = None
    for _ in subtask._preparing_next(job, order, batches):
        found.append("written")
    assert found == opened


def test_an_end_gives_the_next_producer_up_before_it_is_answered() -> None:
    calls: list[str] = []
    pool: Any = SimpleNamespace(
        give_up=lambda: calls.append("give up"), drop_kept=lambda: calls.append("drop"),
        flush_plain=lambda _: calls.append("flush"),
    )  # fmt: skip
    assert subtask._flushed(pool) == ""
    assert calls == ["give up", "drop", "flush"]

    def stuck() -> None:
        raise KafkaUnreachable("the client does not answer")

    pool.give_up = stuck
    assert "the client does not answer" in subtask._flushed(pool)
