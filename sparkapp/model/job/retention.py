"""Earlier checkpoints: how many are retained, and the checkpoint that a job restores."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkapp.model.encoding.resource import at
from sparkapp.model.errors import ConfigurationError

MAX_RETAINED_COUNT = 50
MAX_RETENTION_INTERVAL_SECONDS = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """``spec.checkpoint.retention``.

    :param interval_seconds: minimum seconds between retained checkpoints; an orderly stop always retains its last.
    :param count: number of checkpoints to retain; 0 disables retention.
    """

    interval_seconds: int = field(default=60, metadata=at(low=1))
    count: int = field(default=10, metadata=at(low=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """``spec.restore``.

    :param checkpoint: number of the checkpoint to restore; 0 for none.
    :param nonce: each new value restores the checkpoint once.
    """

    checkpoint: int = field(default=0, metadata=at(low=1))
    nonce: int = field(default=0, metadata=at(low=0))


def check_retention(retention: Retention, restore: Restore, *, subscribes: bool) -> None:
    """Called by the rules between a job's fields.

    :param subscribes: the job shares its partitions with a consumer group.
    :raises ConfigurationError: naming the field, with the remedy.
    """
    if retention.count > MAX_RETAINED_COUNT:
        msg = f"spec.checkpoint.retention.count: must be at most {MAX_RETAINED_COUNT}, not {retention.count}"
        raise ConfigurationError(msg)
    if retention.interval_seconds > MAX_RETENTION_INTERVAL_SECONDS:
        msg = (
            f"spec.checkpoint.retention.intervalSeconds: must be at most {MAX_RETENTION_INTERVAL_SECONDS}, a day,"
            f" not {retention.interval_seconds}"
        )
        raise ConfigurationError(msg)
    if restore.checkpoint and subscribes:
        msg = (
            "spec.restore.checkpoint: has no effect with source.groupMembership.mode Subscribe, whose offsets are the"
            " group's"
        )
        remedy = "remove restore.checkpoint, stop the group's members, and run kafka-consumer-groups --reset-offsets"
        raise ConfigurationError(msg, remedy=remedy)
