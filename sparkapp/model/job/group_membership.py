"""``spec.source.groupMembership``: the job chooses its partitions, or the consumer group that it joins (ADR 10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.encoding.resource import at
from sparkapp.model.errors import ConfigurationError

PATH = "spec.source.groupMembership"
_INSTANCE_ID = re.compile(r"[A-Za-z0-9._-]{1,249}")

FIELD_OF_PROPERTY: Mapping[str, str] = {
    "group.instance.id": "groupInstanceId",
    "partition.assignment.strategy": "assignor",
    "session.timeout.ms": "sessionTimeoutSeconds",
    "heartbeat.interval.ms": "heartbeatIntervalSeconds",
    "max.poll.interval.ms": "maxPollIntervalSeconds",
}
"""Client properties that are fields of ``source.groupMembership``; refused elsewhere, with the field's name."""


class MembershipMode(StrEnum):
    """Kafka's two ways to partitions: ``KafkaConsumer.assign`` and ``KafkaConsumer.subscribe``."""

    ASSIGN = "Assign"
    SUBSCRIBE = "Subscribe"


class Assignor(StrEnum):
    """``partition.assignment.strategy``, as librdkafka names it; every member of a group must offer the same."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    COOPERATIVE_STICKY = "cooperative-sticky"

    @property
    def cooperative(self) -> bool:
        """True where a rebalance revokes only the partitions that move (KIP-429); otherwise it revokes all."""
        return self is Assignor.COOPERATIVE_STICKY


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipOptions:
    """``source.groupMembership``.

    :param group_instance_id: makes the member static (KIP-345): a restart within the session timeout moves nothing.
    :param session_timeout_seconds: time without a heartbeat after which the broker assigns the partitions to others.
    :param max_poll_interval_seconds: also how long a rebalance waits for the checkpoint under way.
    """

    mode: MembershipMode = MembershipMode.ASSIGN
    assignor: Assignor = Assignor.RANGE
    group_instance_id: str = ""
    session_timeout_seconds: int = field(default=45, metadata=at(low=1))
    heartbeat_interval_seconds: int = field(default=3, metadata=at(low=1))
    max_poll_interval_seconds: int = field(default=300, metadata=at(low=1))

    @property
    def subscribes(self) -> bool:
        return self.mode is MembershipMode.SUBSCRIBE

    @property
    def finish_seconds(self) -> float:
        """The time that a revocation waits for the running checkpoint.

        The broker counts the poll interval from the start of the rebalance, which the next heartbeat announces. The
        remaining fifth is for the commit and for joining the group again.
        """
        return self.max_poll_interval_seconds * 0.8 - self.heartbeat_interval_seconds


def check_membership(
    options: MembershipOptions,
    *,
    delivery_guarantee: DeliveryGuarantee,
    startup: str,
    offset_commit: OffsetCommit,
    state_claim: str,
    bounded: bool,
    named_partitions: bool,
    skips: bool,
) -> None:
    """The rules between membership and the rest of the spec; called by the rules between a job's fields.

    :param startup: ``source.startup.mode``.
    :param state_claim: the volume of operators' state, or empty.
    :param bounded: whether ``source.stopping`` ends the job.
    :param named_partitions: whether ``source.partitions`` names what is read.
    :param skips: whether ``source.onDataLoss`` is SkipToAvailable.
    :raises ConfigurationError: naming the field, with the remedy.
    """
    _require(
        options.heartbeat_interval_seconds * 3 <= options.session_timeout_seconds,
        "heartbeatIntervalSeconds",
        "must be at most a third of sessionTimeoutSeconds, so that two lost heartbeats do not end the session",
        f"set it to at most {options.session_timeout_seconds // 3}, or raise sessionTimeoutSeconds",
    )
    _require(
        options.max_poll_interval_seconds >= options.session_timeout_seconds,
        "maxPollIntervalSeconds",
        "must be at least sessionTimeoutSeconds",
        f"set maxPollIntervalSeconds to at least {options.session_timeout_seconds}",
    )
    if not options.subscribes:
        _require(
            not options.group_instance_id,
            "groupInstanceId",
            "has no effect with mode: Assign, which joins no group",
            "set mode: Subscribe, or remove groupInstanceId",
        )
        return
    _require(
        delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE,
        "mode",
        "Subscribe cannot be exactly once, because a rebalance may move a partition during a transaction",
        "set mode: Assign, or sink.deliveryGuarantee: AtLeastOnce",
    )
    _require(
        startup == "GroupOffsets",
        "mode",
        "Subscribe reads from the group's offsets only",
        "set source.startup.mode: GroupOffsets; startup.onMissingOffset is for partitions without a committed offset",
    )
    _require(
        offset_commit is not OffsetCommit.DISABLED,
        "mode",
        "Subscribe needs committed offsets, from which a partition's next owner resumes",
        "set source.offsetCommit: OnCheckpoint",
    )
    _require(
        not state_claim,
        "mode",
        "Subscribe cannot keep operators' state, which does not move with a partition",
        "set mode: Assign, or remove checkpoint.stateVolume",
    )
    _require(
        not bounded,
        "mode",
        "Subscribe cannot be bounded, because other members may read the remaining records",
        "set source.stopping.mode: Unbounded and remove its predicate, or set mode: Assign",
    )
    _require(
        not named_partitions,
        "mode",
        "Subscribe leaves the choice of partitions to the group",
        "name source.topics instead of source.partitions, or set mode: Assign",
    )
    _require(
        not skips,
        "mode",
        "Subscribe cannot skip deleted records for the whole group",
        "set source.onDataLoss: Fail; kafka-consumer-groups --reset-offsets moves the group",
    )
    _require(
        not options.group_instance_id or bool(_INSTANCE_ID.fullmatch(options.group_instance_id)),
        "groupInstanceId",
        f"{options.group_instance_id!r} must consist of at most 249 letters, digits, '.', '_' and '-'",
    )


def _require(condition: bool, field_name: str, message: str, remedy: str | None = None) -> None:
    if not condition:
        msg = f"{PATH}.{field_name}: {message}"
        raise ConfigurationError(msg, remedy=remedy)
