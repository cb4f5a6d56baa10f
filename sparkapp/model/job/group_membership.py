"""``spec.source.groupMembership``: the job chooses its partitions, or the consumer group that it joins (ADR 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sparkapp.model.encoding.resource import at

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
