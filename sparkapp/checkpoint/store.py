"""The store of the checkpoint document: one text, changed only by compare-and-swap."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sparkapp.checkpoint.volume import only_writer, prepared
from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import CheckpointConflict, CheckpointStoreUnavailable, VolumeFull, VolumeUnusable

_LOCK_SECONDS = 30.0
"""That another process may take to compare a number and to rename a file."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Result of a read.

    :param text: the document, or None where no attempt claimed the state yet.
    :param version: opaque; a write names the version that it replaces.
    """

    text: str | None
    version: str


class CheckpointStore(Protocol):
    """Holds the document of one job; written by the driver's recovery and coordinator, from one thread, and read from
    any."""

    def read(self) -> Stored:
        """Reads the document.

        :raises CheckpointMissing: its ConfigMap does not exist. :raises CheckpointCorrupt: it holds another text.
        :raises CheckpointStoreUnavailable: no answer in time.
        """
        ...

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        """Replaces the document and returns the new version.

        An answer lost on the way is resolved inside: a write that took effect is never reported as failed.

        :param deadline: of requests and answers; None for the store's own.
        :raises CheckpointConflict: another writer wrote since ``expected``; the caller is superseded.
        :raises CheckpointMissing: the ConfigMap does not exist.
        :raises CheckpointStoreUnavailable: no answer in time; the write may or may not have taken effect.
        :raises CheckpointRefused: and CheckpointTooLarge: not allowed, or too large; nothing was written.
        :raises VolumeUnusable: and VolumeFull, for a file store: nothing was written.
        """
        ...


class FileStore:
    """A file on a local disk, for jobs that run without Kubernetes; durable over a crash.

    Its version is a counter in the file's first line. A lock of the system makes a write a compare-and-swap: the driver
    of an earlier attempt may have been stopped and continued.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Stored:
        try:
            version, _, text = self._path.read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            return Stored(None, "0")
        return Stored(text, version)

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        version = str(int(expected) + 1)
        # A process that stops in the slow part, which is the disk's, does not hold the lock.
        with (
            prepared(self._path, f"{version}\n{text}") as replace,
            only_writer(self._path, deadline or Deadline.after(_LOCK_SECONDS)),
        ):
            found = self.read().version
            if found != expected:
                msg = f"the checkpoint was changed by another writer: version {found}, expected {expected}"
                raise CheckpointConflict(msg)
            try:
                replace()
            except (VolumeFull, VolumeUnusable) as error:
                if self.read() == Stored(text, version):
                    msg = f"the checkpoint was written, and the disk may not have it: {error.message}"
                    raise CheckpointStoreUnavailable(msg) from error
                raise
        return version
