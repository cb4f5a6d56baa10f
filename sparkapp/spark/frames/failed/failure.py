"""What the user's code raises for a record alone, and the rows that take such records to the write stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.spec import Job
from sparkapp.sink.dead_letter import (
    ERROR,
    KIND,
    LETTER_SCHEMA,
    MAX_MESSAGE,
    PLACE,
    RAW_KEY,
    RAW_VALUE,
    STAGE,
    TRANSFORM,
    dead_letters,
)
from sparkapp.spark.frames.failed.failing_record import exception_name, exception_text, raised_text
from sparkapp.spark.frames.user_frames import frames_of, user_frame


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception without its frames, which would keep the batch's parts.

    :param kind: the class.
    :param place: file and line of the user; empty if there is none.
    :param shown: all of it on one line, for messages.
    """

    kind: str
    text: str
    place: str
    shown: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Of an exception of this process."""
        place = str(user_frame(frames_of(error)) or "")
        return cls(exception_name(error), exception_text(error, MAX_MESSAGE), place, raised_text(error))


def file_rows(job: Job, rows: pa.RecordBatch, failures: Sequence[Failure]) -> pa.RecordBatch:
    """The rows of the file for records that are left out: letters, or rows without content that are only counted.

    :param rows: of the source, with the raw sides where a decoder has replaced them.
    :param failures: of each row.
    """
    if job.spec.record_errors.transform_policy is not OnRecordError.DEAD_LETTER:
        nothing = [pa.nulls(rows.num_rows, field.type) for field in LETTER_SCHEMA]
        return pa.RecordBatch.from_arrays(nothing, schema=LETTER_SCHEMA)
    columns: dict[str, Any] = {
        name: rows.column(name) for name in ("topic", "partition", "offset", "timestamp", "headers")
    }
    for side, raw in (("key", RAW_KEY), ("value", RAW_VALUE)):
        columns[raw] = rows.column(raw if raw in rows.schema.names else side)
    columns[STAGE] = pa.array([TRANSFORM] * len(failures))
    columns[ERROR] = pa.array([each.text for each in failures])
    columns[KIND] = pa.array([each.kind for each in failures])
    columns[PLACE] = pa.array([each.place for each in failures])
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return dead_letters(batch, job=f"{job.namespace}.{job.name}")
