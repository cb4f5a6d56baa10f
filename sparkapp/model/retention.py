"""What a user says of earlier checkpoints: how many are kept, and which one to go back to."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.fields import Fields

MAX_RETAINED_COUNT = 50
MAX_RETENTION_INTERVAL_SECONDS = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """``spec.checkpoint.retention``.

    :param interval_seconds: a checkpoint is kept when the last one that was kept is at least so old.
    :param count: the newest so many stay; 0 keeps none.
    """

    interval_seconds: int = 60
    count: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """``spec.restoreFrom`` and ``spec.redeployNonce``.

    :param checkpoint: number of the checkpoint to go back to; 0 for none.
    :param nonce: a restore happens once per change of it.
    """

    checkpoint: int = 0
    nonce: int = 0


def retention_from(checkpoint: Fields) -> Retention:
    """Reads ``spec.checkpoint.retention``.

    :raises ConfigurationError: naming the field and what it takes.
    """
    fields = checkpoint.child("retention")
    return Retention(
        interval_seconds=fields.integer("intervalSeconds", 60, low=1), count=fields.integer("count", 10, low=0)
    )


def restore_from(root: Fields) -> Restore:
    """Reads the two fields of ``spec``.

    :raises ConfigurationError: naming the field and what it takes.
    """
    wanted = root.child("restoreFrom")
    checkpoint = 0
    if not wanted.empty:
        checkpoint = wanted.integer("checkpoint", 0, low=1)
        if not checkpoint:
            msg = f"{wanted.path}.checkpoint is missing: write restoreFrom: {{checkpoint: NUMBER}}, or leave it out"
            raise ConfigurationError(msg)
    return Restore(checkpoint=checkpoint, nonce=root.integer("redeployNonce", 0, low=0))


def check_retention(retention: Retention, restore: Restore, *, subscribes: bool) -> None:
    """:param subscribes: the job shares its partitions with a consumer group.

    :raises ConfigurationError: naming the field and what to type instead.
    """
    if retention.count > MAX_RETAINED_COUNT:
        msg = f"spec.checkpoint.retention.count: at most {MAX_RETAINED_COUNT}, not {retention.count}; 0 keeps none"
        raise ConfigurationError(msg)
    if retention.interval_seconds > MAX_RETENTION_INTERVAL_SECONDS:
        msg = f"spec.checkpoint.retention.intervalSeconds: at most {MAX_RETENTION_INTERVAL_SECONDS}, a day"
        raise ConfigurationError(msg)
    if restore.checkpoint and subscribes:
        msg = (
            "spec.restoreFrom: with source.groupMembership.mode Subscribe the offsets are the group's: remove"
            " restoreFrom, stop the group's members and move it with kafka-consumer-groups --reset-offsets"
        )
        raise ConfigurationError(msg)
