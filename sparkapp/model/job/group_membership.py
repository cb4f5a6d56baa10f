"""``spec.source.groupMembership``: whether the job or its consumer group assigns the partitions (ADR 10)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from sparkapp.model.encoding.schema import at, part
from sparkapp.model.job.forms import KAFKA_ID

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


@part
class MembershipOptions:
    """``source.groupMembership``.

    :param group_instance_id: makes the member static (KIP-345).
    """

    mode: MembershipMode = at(
        "Kind of the assignment. Assign reads every partition and joins no group. Subscribe shares"
        " the partitions with the other members of groupId, at least once. Subscribe cannot change to"
        " Assign.",
        default=MembershipMode.ASSIGN,
    )
    assignor: Assignor = at(
        "partition.assignment.strategy, which every member of the group must offer. range and"
        " roundrobin revoke all partitions in a rebalance. cooperative-sticky revokes only the"
        " partitions that move.",
        default=Assignor.RANGE,
    )
    group_instance_id: str = at(
        "group.instance.id of a static member, unique in the group. A restart within"
        " sessionTimeoutSeconds moves no partition. Until then nobody reads the partitions of a"
        " stopped job.",
        default="",
        form=KAFKA_ID,
    )
    session_timeout_seconds: int = at(
        "session.timeout.ms, in seconds. After this time without a heartbeat the broker assigns the"
        " partitions to other members.",
        default=45,
        low=1,
        high=3600,
    )
    heartbeat_interval_seconds: int = at(
        "heartbeat.interval.ms, in seconds. A heartbeat also announces a rebalance.", default=3, low=1, high=1200
    )
    max_poll_interval_seconds: int = at(
        "max.poll.interval.ms, in seconds. A rebalance waits four fifths of it for the running checkpoint.",
        default=300,
        low=1,
        high=86400,
    )

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
