"""Carries the dead letters of one Spark task from the stage that diverts them to the write stage, in a file.

The two stages of a task run in different Python workers of one executor, with the user's transform between them. The
file is an Arrow stream in the executor's scratch directory, named by Spark's task attempt. It gets its final name when
the diverting stage has read all its input. The write stage cannot reach the end of its own input before that.
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


class DeadLetterFile:
    """One task attempt's file.

    :param attempt_key: names the attempt of the job; keeps jobs apart where executors share a directory.
    :param stage: Spark's id. Each wave of subtasks is a stage of its own, and counts its partitions from 0.
    :param partition: of the task in it; the files of its earlier task attempts are removed.
    :param task_attempt: Spark's task attempt id, never used twice in an attempt.
    :param scratch: folder for the file; by default the executor's.
    """

    def __init__(
        self, *, attempt_key: str, stage: int, partition: int, task_attempt: int, scratch: Path | None = None
    ) -> None:
        if scratch is None:
            scratch = Path(os.environ.get(_SCRATCH, tempfile.gettempdir()).split(",")[0])
        self._folder = scratch / f"dead-letters-{attempt_key}"
        self._task = f"{stage}.{partition}"
        self._file = self._folder / f"{self._task}-{task_attempt}.arrow"

    @contextmanager
    def writing(self) -> Iterator[pa.ipc.RecordBatchStreamWriter]:
        """Used by the diverting stage; the file is finished at the end of the block, and removed after an error."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for earlier in self._folder.glob(f"{self._task}-*"):
            with suppress(FileNotFoundError):
                earlier.unlink()
        unfinished = self._file.with_suffix(_UNFINISHED)
        try:
            with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_stream(sink, LETTER_SCHEMA) as stream:
                yield stream
            unfinished.rename(self._file)
        finally:
            with suppress(FileNotFoundError):
                unfinished.unlink()

    def take(self) -> Iterator[pa.RecordBatch]:
        """Used by the write stage after it has read its input to the end; removes the file.

        :raises TransformError: the file is not finished: the transform did not read all of its input.
        """
        try:
            source = pa.OSFile(str(self._file), "rb")
        except FileNotFoundError:
            msg = "the transform stopped before the end of its input: records that do not parse may be missed"
            raise TransformError(
                msg, remedy="read every batch to its end in spec.transform, or set spec.onRecordError: Skip"
            ) from None
        with source:
            self._file.unlink()
            with pa.ipc.open_stream(source) as stream:
                yield from stream
