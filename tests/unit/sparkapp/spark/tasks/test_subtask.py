"""The producer of a subtask's next checkpoint: when it is opened, and that it is given up at the end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.spark.tasks import subtask
from sparkapp.spark.tasks.write_task import WriteOrder, WriteResult

ORDER = WriteOrder(
    checkpoint_id=7, subtask=1, next_free=0, settled=6, writes_what_it_reads=True, ranges=(), group_id="g"
)
WRITTEN = WriteResult(
    index=1, records=1, dead_letters=0,
    committable=KafkaCommittable(
        transactional_id="p-1", producer_id=1, producer_epoch=0, checkpoint_id=7, subtask=1, records=1
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("order", "result", "opened"),
    [
        (ORDER, WRITTEN, [8]),
        (ORDER, replace(WRITTEN, committable=None), []),
        (replace(ORDER, group_id=None), WRITTEN, []),
    ],
    ids=["after a transaction", "not without one", "not where no offset proves an outcome"],
)
def test_the_next_producer_is_opened(
    order: WriteOrder, result: WriteResult, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    monkeypatch.setattr(subtask, "writer_for", lambda job, order: SimpleNamespace(prepare_next=found.append))
    job: Any = None
    subtask._prepare_next(job, order, result)
    assert found == opened


def test_an_end_gives_the_next_producer_up_before_it_is_answered() -> None:
    calls: list[str] = []
    pool: Any = SimpleNamespace(give_up=lambda: calls.append("give up"), flush_plain=lambda _: calls.append("flush"))
    assert subtask._flushed(pool) == ""
    assert calls == ["give up", "flush"]

    def stuck() -> None:
        raise KafkaUnreachable("the client does not answer")

    pool.give_up = stuck
    assert "the client does not answer" in subtask._flushed(pool)
