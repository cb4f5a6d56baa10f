"""How a job's partitions are chosen: by itself, or by the consumer group whose member it is (seed 004, ADR 10).

The fields are ``spec.source.groupMembership``; Kafka's names, in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.fields import Fields
from sparkapp.model.semantic import OffsetCommit, Semantic

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
    """``partition.assignment.strategy``, in librdkafka's words; every member of a group must offer the same one."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    COOPERATIVE_STICKY = "cooperative-sticky"

    @property
    def cooperative(self) -> bool:
        """True where a rebalance takes only the partitions that move (KIP-429); else everything stops first."""
        return self is Assignor.COOPERATIVE_STICKY


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipOptions:
    """``source.groupMembership``.

    :param group_instance_id: makes the member static (KIP-345): a restart within the session time-out moves nothing.
    :param session_timeout_seconds: silence after which the broker gives the partitions to others.
    :param max_poll_interval_seconds: also how long a rebalance waits for the checkpoint under way.
    """

    mode: MembershipMode = MembershipMode.ASSIGN
    assignor: Assignor = Assignor.RANGE
    group_instance_id: str = ""
    session_timeout_seconds: int = 45
    heartbeat_interval_seconds: int = 3
    max_poll_interval_seconds: int = 300

    @property
    def subscribes(self) -> bool:
        return self.mode is MembershipMode.SUBSCRIBE

    @property
    def finish_seconds(self) -> float:
        """How long a revocation waits for the checkpoint under way.

        The broker counts the poll interval from the start of the rebalance, of which a heartbeat tells; the rest of
        it is for the commit and the way back into the group.
        """
        return self.max_poll_interval_seconds * 0.8 - self.heartbeat_interval_seconds


def membership_from(fields: Fields) -> MembershipOptions:
    """Reads the resource's object; absent means Assign.

    :raises ConfigurationError: naming the field.
    """
    default = MembershipOptions()
    return MembershipOptions(
        mode=fields.choice("mode", MembershipMode, default.mode),
        assignor=fields.choice("assignor", Assignor, default.assignor),
        group_instance_id=fields.string("groupInstanceId", ""),
        session_timeout_seconds=fields.integer("sessionTimeoutSeconds", default.session_timeout_seconds, low=1),
        heartbeat_interval_seconds=fields.integer(
            "heartbeatIntervalSeconds", default.heartbeat_interval_seconds, low=1
        ),
        max_poll_interval_seconds=fields.integer("maxPollIntervalSeconds", default.max_poll_interval_seconds, low=1),
    )


def check_membership(
    options: MembershipOptions,
    *,
    semantic: Semantic,
    startup: str,
    offset_commit: OffsetCommit,
    state_claim: str,
    bounded: bool,
    named_partitions: bool,
    skips: bool,
) -> None:
    """The rules between membership and the rest of the spec.

    :param startup: ``source.startup.mode``.
    :param state_claim: the volume of operators' state, or empty.
    :param bounded: whether ``source.stopping`` ends the job.
    :param named_partitions: whether ``source.partitions`` names what is read.
    :param skips: whether ``source.dataLossPolicy`` is SkipToAvailable.
    :raises ConfigurationError: naming the field and what to type instead.
    """
    _require(
        options.heartbeat_interval_seconds * 3 <= options.session_timeout_seconds,
        "heartbeatIntervalSeconds",
        "must be at most a third of sessionTimeoutSeconds, so that two lost heartbeats do not end the session: set it"
        f" to at most {options.session_timeout_seconds // 3}, or raise sessionTimeoutSeconds",
    )
    _require(
        options.max_poll_interval_seconds >= options.session_timeout_seconds,
        "maxPollIntervalSeconds",
        f"must be at least sessionTimeoutSeconds: set it to at least {options.session_timeout_seconds}",
    )
    if not options.subscribes:
        _require(
            not options.group_instance_id,
            "groupInstanceId",
            "needs mode: Subscribe; with Assign nobody joins the group",
        )
        return
    _require(
        semantic is not Semantic.EXACTLY_ONCE,
        "mode",
        "Subscribe cannot be exactly once, for a rebalance may move a partition in the middle of a transaction:"
        " set mode: Assign, or sink.semantic: AT_LEAST_ONCE",
    )
    _require(
        startup == "GROUP_OFFSETS",
        "mode",
        "Subscribe goes on where the group stands: set source.startup.mode: GROUP_OFFSETS"
        " (startup.onMissingOffset says where partitions without a committed offset begin)",
    )
    _require(
        offset_commit is not OffsetCommit.DISABLED,
        "mode",
        "Subscribe needs committed offsets, they tell the next owner where to go on:"
        " set source.offsetCommit: OnCheckpoint",
    )
    _require(
        not state_claim,
        "mode",
        "Subscribe cannot keep operators' state, for it does not move with a partition:"
        " set mode: Assign, or remove checkpoint.stateVolume",
    )
    _require(
        not bounded,
        "mode",
        "Subscribe has no end, for others may read what is left:"
        " set source.stopping.mode: UNBOUNDED without a predicate, or mode: Assign",
    )
    _require(
        not named_partitions,
        "mode",
        "Subscribe leaves the choice of partitions to the group: name source.topics instead of source.partitions,"
        " or set mode: Assign",
    )
    _require(
        not skips,
        "mode",
        "Subscribe does not skip for the whole group: set source.dataLossPolicy: Fail"
        " (kafka-consumer-groups --reset-offsets moves a group whose records are gone)",
    )
    _require(
        not options.group_instance_id or bool(_INSTANCE_ID.fullmatch(options.group_instance_id)),
        "groupInstanceId",
        f"{options.group_instance_id!r} must be of letters, digits, '.', '_', '-', at most 249",
    )


def _require(condition: bool, field: str, message: str) -> None:
    if not condition:
        msg = f"{PATH}.{field}: {message}"
        raise ConfigurationError(msg)
