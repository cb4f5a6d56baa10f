"""What a job wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaspark.local.records import Record, sink_records

if TYPE_CHECKING:
    import pyarrow as pa


class Output(list[Record]):
    """The records that the job writes to its sink, in the order of the checkpoints.

    :ivar skipped: number of records that ``onRecordError`` and ``onTransformError`` of Skip have left out.
    :ivar dead_letters: records for the dead letter topic.
    :ivar late: rows that a stateful operator has dropped as later than the watermark.
    :ivar warnings: what is likely a mistake, such as an operator whose state only grows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0
        self.dead_letters: list[Record] = []
        self.late = 0
        self.warnings: tuple[str, ...] = ()

    def write_dead_letters(self, letters: pa.RecordBatch, *, topic: str, limit: int) -> None:
        """Called as the writer of a task is, for the letters of a checkpoint. They are not cut to ``limit``."""
        self.dead_letters += sink_records(letters, topic)
