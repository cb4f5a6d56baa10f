"""What the fork server of subtasks imports once for all of them, as Spark's worker daemon does."""

from __future__ import annotations

import gc

import pyarrow as pa

from tests.support.protocol import subtask_process  # noqa: F401 - forked with each subtask

pa.array(["pyarrow imports pandas for the first value of a list"])
gc.collect()
gc.freeze()
