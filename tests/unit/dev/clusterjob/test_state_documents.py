"""When a checkpoint counts as new: not when an attempt merely claims the last one under its own number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterjob.state_documents import StateDocuments, document_of
from clusterjob.watch import TimedOut
from sparkapp.model import names
from tests.unit.dev.clusterjob.kubectl_stand_in import kubectl_that_prints


def written(attempt: int, checkpoint: int) -> str:
    counters = {"recordsIn": 10 * checkpoint, "transactionsAborted": attempt}
    document = {"attempt": attempt, "checkpointId": checkpoint, "counters": counters}
    body = {
        "type": "MODIFIED",
        "object": {
            "metadata": {"name": names.state_config_map("job")},
            "data": {names.CHECKPOINT_KEY: json.dumps(document)},
        },
    }
    return json.dumps(body)


def test_the_first_new_checkpoint_is_found_in_the_history(tmp_path: Path) -> None:
    kubectl = kubectl_that_prints(tmp_path, *(written(*each) for each in ((1, 4), (1, 5), (2, 5), (2, 6), (2, 7))))
    with StateDocuments(kubectl, "job") as state:
        state.wait(7, seconds=5)
        found = state.wait_new(0.0, attempt=2, checkpoint=4, seconds=5)
        assert (found.attempt, found.checkpoint, found.records_in, found.aborted) == (2, 6, 60, 2)
        assert state.wait_new(0.0, attempt=1, checkpoint=4, seconds=5).checkpoint == 5


def test_a_claim_is_no_checkpoint(tmp_path: Path) -> None:
    kubectl = kubectl_that_prints(tmp_path, written(1, 5), written(2, 5))
    with StateDocuments(kubectl, "job") as state:
        state.wait(5, attempt=2, seconds=5)
        with pytest.raises(TimedOut, match="a checkpoint after 4 by attempt 2"):
            state.wait_new(0.0, attempt=2, checkpoint=4, seconds=0.05)


@pytest.mark.parametrize(
    "data", [None, {}, {"checkpoint.json": ""}, {"checkpoint.json": "[]"}, {"checkpoint.json": "{"}]
)
def test_what_is_no_document_is_none(data: dict[str, str] | None) -> None:
    assert document_of({"data": data} if data is not None else {}, 0.0) is None
