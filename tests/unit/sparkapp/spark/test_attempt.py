"""Which errors of an attempt leave nothing open, although nobody has asked it to stop."""

from __future__ import annotations

import pytest

from sparkapp.model.errors import (
    CheckpointMissing,
    InvalidArgument,
    KafkaUnreachable,
    SchemaRegistryUnreachable,
    SubtaskMissing,
    TransactionFenced,
    TransformFailed,
)
from sparkapp.spark.attempt import _is_last


@pytest.mark.parametrize(
    ("error", "is_last"),
    [
        (InvalidArgument("a person must act"), True),
        (CheckpointMissing("the job is deleted"), True),
        (SubtaskMissing("the next driver may find no room, either"), True),
        (TransformFailed("the operator may give up after it"), True),
        (SchemaRegistryUnreachable("so it may after this"), True),
        (KafkaUnreachable("nothing can be ended"), False),
        (TransactionFenced("the next attempt starts at once"), False),
    ],
)
def test_open_transactions_are_ended_where_no_attempt_may_follow_soon(error: Exception, is_last: bool) -> None:
    assert _is_last(error) is is_last
