"""The rules between ``spec.source.groupMembership`` and the rest of the spec."""

from __future__ import annotations

import re

from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.group_membership import MembershipOptions
from sparkapp.model.job.sections.source import OnDataLoss
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import StartupMode

_PATH = "spec.source.groupMembership"
_INSTANCE_ID = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_membership(spec: JobSpec) -> None:
    """Called by the rules between a job's fields.

    :raises ConfigurationError: naming the field, with the remedy.
    """
    options = spec.source.group_membership
    _check_times(options)
    if options.subscribes:
        _check_subscribe(spec, options)
        return
    require(
        not options.group_instance_id,
        f"{_PATH}.groupInstanceId",
        "has no effect with mode: Assign, which joins no group",
        "set mode: Subscribe, or remove groupInstanceId",
    )


def _check_times(options: MembershipOptions) -> None:
    require(
        options.heartbeat_interval_seconds * 3 <= options.session_timeout_seconds,
        f"{_PATH}.heartbeatIntervalSeconds",
        "must be at most a third of sessionTimeoutSeconds, so that two lost heartbeats do not end the session",
        f"set it to at most {options.session_timeout_seconds // 3}, or raise sessionTimeoutSeconds",
    )
    require(
        options.max_poll_interval_seconds >= options.session_timeout_seconds,
        f"{_PATH}.maxPollIntervalSeconds",
        "must be at least sessionTimeoutSeconds",
        f"set maxPollIntervalSeconds to at least {options.session_timeout_seconds}",
    )


def _check_subscribe(spec: JobSpec, options: MembershipOptions) -> None:
    source = spec.source
    require(
        spec.sink.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE,
        f"{_PATH}.mode",
        "Subscribe cannot be exactly once, because a rebalance may move a partition during a transaction",
        "set mode: Assign, or sink.deliveryGuarantee: AtLeastOnce",
    )
    require(
        source.startup.mode is StartupMode.GROUP_OFFSETS,
        f"{_PATH}.mode",
        "Subscribe reads from the group's offsets only",
        "set source.startup.mode: GroupOffsets; startup.onMissingOffset is for partitions without a committed offset",
    )
    require(
        source.offset_commit is not OffsetCommit.DISABLED,
        f"{_PATH}.mode",
        "Subscribe needs committed offsets, from which a partition's next owner resumes",
        "set source.offsetCommit: OnCheckpoint",
    )
    require(
        not spec.state_claim,
        f"{_PATH}.mode",
        "Subscribe cannot keep operators' state, which does not move with a partition",
        "set mode: Assign, or remove checkpoint.stateVolume",
    )
    require(
        not source.stopping.bounded,
        f"{_PATH}.mode",
        "Subscribe cannot be bounded, because other members may read the remaining records",
        "set source.stopping.mode: Unbounded and remove its predicate, or set mode: Assign",
    )
    require(
        not source.partitions,
        f"{_PATH}.mode",
        "Subscribe leaves the choice of partitions to the group",
        "name source.topics instead of source.partitions, or set mode: Assign",
    )
    require(
        source.on_data_loss is not OnDataLoss.SKIP_TO_AVAILABLE,
        f"{_PATH}.mode",
        "Subscribe cannot skip deleted records for the whole group",
        "set source.onDataLoss: Fail; kafka-consumer-groups --reset-offsets moves the group",
    )
    require(
        not options.group_instance_id or bool(_INSTANCE_ID.fullmatch(options.group_instance_id)),
        f"{_PATH}.groupInstanceId",
        f"{options.group_instance_id!r} must consist of at most 249 letters, digits, '.', '_' and '-'",
    )
