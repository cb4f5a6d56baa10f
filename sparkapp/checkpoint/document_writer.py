"""Replaces the checkpoint document of an attempt, version by version; a part of both coordinators."""

from __future__ import annotations

from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CheckpointConflict, CheckpointStoreUnavailable


class DocumentWriter:
    """One write at a time. After a write without an answer the next write finds out what became of it.

    :param document: the recovered document. :param version: the store's version of it.
    :ivar store: of the document. :ivar document: the last document written.
    """

    def __init__(self, store: CheckpointStore, document: CheckpointDocument, version: str) -> None:
        self.document = document
        self.store = store
        self._version = version
        self._unanswered: set[str] = set()
        """Texts of writes that had no answer; one of them may be the document, now or soon."""

    def write(self, document: CheckpointDocument, *, deadline: Deadline | None = None) -> int:
        """Replaces the document, also where a write of this attempt that had no answer has replaced it.

        A successor's document is never replaced: it is none of those texts.

        :returns: size of the document in bytes.
        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        text = encode(document)
        try:
            self._version = self._written(text, deadline)
        except CheckpointStoreUnavailable:
            self._unanswered.add(text)
            raise
        # The version has changed: a write that is still under way is refused.
        self._unanswered.clear()
        self.document = document
        return len(text.encode())

    def _written(self, text: str, deadline: Deadline | None) -> str:
        try:
            return self.store.write(text, expected=self._version, deadline=deadline)
        except CheckpointConflict:
            if not self._unanswered:
                raise
            found = self.store.read()
            if found.text not in self._unanswered:
                raise
            return self.store.write(text, expected=found.version, deadline=deadline)
