"""A job's document in memory, for tests of one process."""

from __future__ import annotations

from sparkapp.checkpoint.store import Stored
from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import CheckpointConflict, CheckpointStoreUnavailable


class MemoryStore:
    """The document and its version; a write with another version is refused."""

    def __init__(self, text: str | None = None) -> None:
        self._text = text
        self._version = 0

    def read(self) -> Stored:
        return Stored(self._text, str(self._version))

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        if expected != str(self._version):
            msg = f"the checkpoint was changed by another writer: version {self._version}, expected {expected}"
            raise CheckpointConflict(msg)
        self._text = text
        self._version += 1
        return str(self._version)


class LossyStore(MemoryStore):
    """An API server whose answers get lost.

    :ivar silent: number of writes that have no answer. :ivar writes_first: whether they come through.
    """

    silent = 0
    writes_first = True

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        if not self.silent:
            return super().write(text, expected=expected)
        if self.writes_first:
            super().write(text, expected=expected)
        self.silent -= 1
        msg = "no answer"
        raise CheckpointStoreUnavailable(msg)
