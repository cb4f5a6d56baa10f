"""The transform of the takeovers, which executors import without the bench's other modules."""

from __future__ import annotations

import pyarrow as pa


def unstamped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records without the times of their source: each then has the time at which it is written."""
    return batch.drop_columns(["timestamp"])
