"""From the stage that diverts to the stage that writes: dead letters of one Spark task, through a file.

The two stages of a task are different Python workers of one executor, and what lies between them is the user's
transform. So the letters take a way of their own: an Arrow stream in the executor's scratch directory, named by the
task's attempt. It gets its final name when the diverting stage has seen the end of its input, which is before the
writing stage can see the end of its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from sparkapp.model.errors import TransformError
from sparkapp.sink.dead_letter import LETTER_SCHEMA

_SCRATCH = "SPARK_LOCAL_DIRS"
"""Spark tells its Python workers the block manager's directories: one set an executor, removed with it."""
_UNFINISHED = ".part"


class HandOver:
    """One task attempt's file.

    :param life: a name for the attempt of the job; keeps jobs apart where executors share a directory.
    :param partition: of the task; what former attempts at the same partition left behind is removed.
    :param task_attempt: Spark's task attempt id, never used twice in a life.
    """

    def __init__(self, *, life: str, partition: int, task_attempt: int, scratch: Path | None = None) -> None:
        if scratch is None:
            scratch = Path(os.environ.get(_SCRATCH, tempfile.gettempdir()).split(",")[0])
        self._folder = scratch / f"dead-letters-{life}"
        self._partition = partition
        self._file = self._folder / f"{partition}-{task_attempt}.arrow"

    @contextmanager
    def writing(self) -> Iterator[pa.ipc.RecordBatchStreamWriter]:
        """The diverting stage's side; the file is finished at the end of the block and gone after an error in it."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._folder.glob(f"{self._partition}-*"):
            with suppress(FileNotFoundError):
                left.unlink()
        unfinished = self._file.with_suffix(_UNFINISHED)
        try:
            with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_stream(sink, LETTER_SCHEMA) as stream:
                yield stream
            unfinished.rename(self._file)
        finally:
            with suppress(FileNotFoundError):
                unfinished.unlink()

    def take(self) -> Iterator[pa.RecordBatch]:
        """The writing stage's side, called when it has read its input to the end; removes the file.

        :raises TransformError: the diverting stage has not come to its end: the transform did not read everything.
        """
        try:
            source = pa.OSFile(str(self._file), "rb")
        except FileNotFoundError:
            msg = "the transform stopped before the end of its input, so not every record was looked at"
            raise TransformError(
                msg, remedy="read every batch to its end in spec.transform, or set spec.onRecordError: Skip"
            ) from None
        with source:
            self._file.unlink()
            with pa.ipc.open_stream(source) as stream:
                yield from stream
