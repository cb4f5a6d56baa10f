"""The folder of an attempt's query on a disk or a volume."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from sparkapp.model.errors import KafkaSparkJobError, VolumeUnusable
from sparkapp.spark.state import query_log
from sparkapp.spark.state.durable_files import DurableFiles


@dataclass(frozen=True, slots=True)
class LocalQueryFolder:
    """See :class:`sparkapp.spark.state.query_log.QueryFolder`; made by the wiring, and by tests of the engine."""

    unusable: ClassVar[type[KafkaSparkJobError]] = VolumeUnusable
    """What a version in this folder is that was written and is not whole."""
    path: Path
    _files: DurableFiles = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_files", DurableFiles(self.path))

    @property
    def uri(self) -> str:
        return self.path.as_uri()

    @property
    def state(self) -> Path:
        """The folder of query state."""
        return self.path / "state"

    def rebuild(self, *, job_uid: str, checkpoint_id: int, engine: query_log.EngineState, sources: int) -> None:
        """:raises VolumeFull: and VolumeUnusable: the log is incomplete; the next attempt rebuilds it."""
        query_log.rebuild(self.path, job_uid=job_uid, checkpoint_id=checkpoint_id, engine=engine, sources=sources)

    def metadata(self, batch_id: int) -> str:
        return query_log.read_metadata(self.path, batch_id)

    def settle(self, version: int, partitions: int) -> None:
        """Spark's writers have closed the files, or the batch would have failed. Their content goes to the disk now.

        :raises VolumeFull: and VolumeUnusable: the disk may not have the files.
        """
        del version, partitions
        self._files.force()
