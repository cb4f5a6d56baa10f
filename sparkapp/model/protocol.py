"""The steps of one checkpoint, by name."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class ProtocolStep(StrEnum):
    """Moments of a checkpoint at which a crash has a different meaning."""

    BEFORE_FLUSH = "before-flush"
    """Records are produced into open transactions, nothing is pre-committed."""
    AFTER_FLUSH = "after-flush"
    """Every subtask has pre-committed, the document is not written."""
    AFTER_WRITE = "after-write"
    """The document is written, nothing is committed: from here the checkpoint is final."""
    BETWEEN_COMMITS = "between-commits"
    """At least one transaction is committed, at least one may not be."""
    AFTER_COMMITS = "after-commits"
    """Every transaction is committed; the engine does not know yet that the checkpoint is complete."""


StepHook = Callable[[ProtocolStep, int], None]
"""Called with the step and the checkpoint's number."""


def no_hook(step: ProtocolStep, checkpoint_id: int) -> None:
    """The hook of normal operation."""
