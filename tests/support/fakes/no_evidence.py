"""A consumer group that proves nothing about a job's state."""

from __future__ import annotations

from collections.abc import Collection

from sparkapp.checkpoint.recovery.local_starts import GroupAnswer
from sparkapp.model.checkpoint.document import CheckpointDocument


class NoMarks:
    """No offset of the group has the job's mark: it is new, or has expired."""

    def of(self, _: CheckpointDocument | None) -> Collection[str]:
        return ()

    def final(self, document: CheckpointDocument) -> GroupAnswer:
        return dict.fromkeys(document.offsets)
