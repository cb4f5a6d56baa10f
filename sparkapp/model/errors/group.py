"""Errors of a consumer group that the job is a member of (``source.groupMembership`` Subscribe)."""

from __future__ import annotations

from sparkapp.model.errors.base import RESTART
from sparkapp.model.errors.kafka import KafkaAccessError


class GroupMembershipError(KafkaAccessError):
    """The group's coordinator does not accept the job as a member; the message has Kafka's error."""

    reason = "GroupMembershipFailed"


class GroupMemberFenced(GroupMembershipError):
    """FENCED_INSTANCE_ID: another member joined with this job's ``groupInstanceId``; a restart would fence it."""

    reason = "GroupMemberFenced"
    fatal = True
    default_remedy = (
        "set a source.groupMembership.groupInstanceId that no other member has, or stop the other member;"
        f" then restart the job: {RESTART}"
    )


class GroupProtocolMismatch(GroupMembershipError):
    """INCONSISTENT_GROUP_PROTOCOL: the group's other members support no assignor of this job."""

    reason = "GroupProtocolMismatch"
    default_remedy = (
        "set spec.source.groupMembership.assignor to an assignor that every member of the group supports"
        " (Java's and librdkafka's clients support range by default)"
    )


class GroupFull(GroupMembershipError):
    """GROUP_MAX_SIZE_REACHED: the group has as many members as the brokers allow."""

    reason = "GroupFull"
    default_remedy = "stop another member of the group, or raise group.max.size on the brokers"


class SessionTimeoutRefused(GroupMembershipError):
    """INVALID_SESSION_TIMEOUT: the brokers do not allow this ``sessionTimeoutSeconds``."""

    reason = "SessionTimeoutRefused"
    fatal = True
    default_remedy = (
        "set spec.source.groupMembership.sessionTimeoutSeconds between the brokers' group.min.session.timeout.ms"
        " (6 s by default) and group.max.session.timeout.ms"
    )
