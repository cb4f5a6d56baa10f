"""The ConfigMap of an attempt proves that its number is taken, whatever stands in it."""

from __future__ import annotations

import pytest

from kafkasparkjob_operator.observation.observation import attempt_record
from sparkapp.model import names


@pytest.mark.parametrize(
    ("generation", "known"),
    [("3", 3), ("1e999", 0), ("NaN", 0), ("-1", 0), ("1" * 19 + "0" * 300, 0), ("true", 0), ('"3"', 0), ("null", 0)],
)
def test_a_generation_is_a_number_that_a_status_can_have(generation: str, known: int) -> None:
    text = f'{{"generation":{generation},"spec":{{"parallelism":2}}}}'
    meta = {"labels": {names.LABEL_ATTEMPT: "1"}, "uid": "u"}
    record = attempt_record({"metadata": meta, "data": {"resource-spec.json": text}})
    assert record is not None
    assert (record.attempt, record.generation, bool(record.spec)) == (1, known, known > 0)
