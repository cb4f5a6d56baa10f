"""The phases of a job, and the table of how each of them ends (ADR 81). No phase is without an end.

A decision names the phase, and the status has it with its beginning. What ends it is in :data:`TRANSITIONS`: a time
limit that the operator enforces, or an event from outside. ``docs/reasons.md`` has the table (``make generate``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkasparkjob_operator.status.reasons import JobReason, StopReason
from sparkapp.model.errors import ConfigurationError

PREPARE_SECONDS = 300.0
"""The wait for a standby driver to be prepared, as long as for the first report of a driver. After that the current
attempt stops first. A shorter wait stops an attempt that works for a driver that would have said that it cannot."""
FIRST_REPORT_SECONDS = 300.0
"""For the first report of a driver whose container runs. Its imports take seconds, and its image was pulled before.
The time counts by the kubelet's clock, which no operator's restart sets back."""
NO_PROGRESS_SECONDS = 1200.0
"""Longest step of an attempt that starts or ends. The driver ends itself sooner: its longest step is the user's code,
with 900 s (``sparkapp.spark.reporting.liveness``)."""
LOST_SECONDS = 90.0
"""The time in which a silent driver with a ready pod may come back: it may be frozen, or cut off for a moment."""
CONFIRM_SECONDS = 60.0
"""For the driver to confirm that it changes its parallelism. After that the job is rescaled by a new attempt."""
SNAPSHOT_SECONDS = 120.0
"""For the snapshot before an upgrade. A checkpoint is proven within its interval, or the newest retained is taken after
20 s."""
WITHDRAW_SECONDS = 600.0
"""For the added subtasks to start. After that the request is taken back: the job has the parallelism that it runs."""
DELETION_SECONDS = 300.0
"""The longest time for which the finalizer holds a resource, from the operator's first look at the deletion."""


class Phase(StrEnum):
    """``status.phase.name``."""

    PENDING = "Pending"
    """No attempt can be created: a quota, a name, an object of a deleted job."""
    PREPARING = "Preparing"
    """An attempt runs, and a standby driver for a change comes up."""
    SNAPSHOTTING = "Snapshotting"
    """An attempt runs, and the snapshot before a new revision is made."""
    STOPPING = "Stopping"
    """The driver's pod is being deleted."""
    WAITING = "Waiting"
    """The driver is gone, and other pods of the attempt are not."""
    SCHEDULING = "Scheduling"
    """The driver's container does not run yet."""
    STARTING = "Starting"
    """The driver's container runs, and has sent no report."""
    RECOVERING = "Recovering"
    """The driver reports, and does not read yet: it checks Kafka and the code, and settles transactions."""
    RUNNING = "Running"
    RESCALING = "Rescaling"
    """The running attempt changes its parallelism in place."""
    BACKING_OFF = "BackingOff"
    """An attempt has ended, and the next starts after a pause."""
    SUSPENDED = "Suspended"
    FAILED = "Failed"
    FINISHED = "Finished"
    DELETING = "Deleting"


class Bound(StrEnum):
    """What limits a phase."""

    DEADLINE = "deadline"
    """``status.phase.deadline``, which the operator enforces."""
    PROGRESS = "progress"
    """A time without progress of the driver, which the operator measures by its own monotonic clock."""
    OUTSIDE = "event"
    """An event from outside. The operator looks for it, and acts when it comes."""


class Actor(StrEnum):
    """``status.phase.awaits``: whose act ends the phase."""

    OPERATOR = "Operator"
    DRIVER = "Driver"
    KUBERNETES = "Kubernetes"
    PERSON = "Person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """How a phase ends.

    :param reasons: of the status; without any, all that no other row of the phase has.
    :param seconds: of a deadline, or without progress; None where the resource or Kubernetes says it.
    :param success: the phases that follow where all goes well.
    :param otherwise: what the operator does at the end of the time, or what else ends the phase.
    """

    phase: Phase
    reasons: frozenset[str] = frozenset()
    bound: Bound
    seconds: float | None = None
    success: tuple[Phase, ...]
    otherwise: str
    actor: Actor


def _row(
    phase: Phase,
    bound: Bound,
    actor: Actor,
    *success: Phase,
    otherwise: str,
    seconds: float | None = None,
    reasons: tuple[str, ...] = (),
) -> Transition:
    return Transition(
        phase=phase, reasons=frozenset(map(str, reasons)), bound=bound, seconds=seconds, success=success,
        otherwise=otherwise, actor=actor,
    )  # fmt: skip


TRANSITIONS: tuple[Transition, ...] = (
    _row(
        Phase.PENDING, Bound.OUTSIDE, Actor.KUBERNETES, Phase.SCHEDULING,
        otherwise="The operator tries again, after a pause that grows.",
    ),
    _row(
        Phase.PREPARING, Bound.DEADLINE, Actor.DRIVER, Phase.STOPPING, seconds=PREPARE_SECONDS,
        otherwise="The current attempt stops first. A standby that fails refuses the change, and the attempt stays."
        " With `BlueGreen` the limit is `upgrade.prepareTimeoutSeconds`, and `prepareFallback` says what follows.",
    ),
    _row(
        Phase.SNAPSHOTTING, Bound.DEADLINE, Actor.OPERATOR, Phase.STOPPING, seconds=SNAPSHOT_SECONDS,
        otherwise="The change is refused, and the attempt stays. It follows if the snapshot becomes Ready after all.",
    ),
    _row(
        Phase.STOPPING, Bound.DEADLINE, Actor.DRIVER, Phase.WAITING, Phase.BACKING_OFF, Phase.SUSPENDED,
        otherwise="The kubelet kills the pod at the end of its grace period. The next attempt settles what is open.",
    ),
    _row(
        Phase.STOPPING, Bound.OUTSIDE, Actor.PERSON, Phase.WAITING, reasons=(JobReason.POD_NOT_TERMINATING,),
        otherwise="The node comes back, or a person deletes the pod by force.",
    ),
    _row(
        Phase.WAITING, Bound.DEADLINE, Actor.KUBERNETES, Phase.SCHEDULING, Phase.BACKING_OFF, Phase.SUSPENDED,
        otherwise="The kubelet kills the pods at the end of their grace period.",
    ),
    _row(
        Phase.WAITING, Bound.OUTSIDE, Actor.PERSON, Phase.SCHEDULING, reasons=(JobReason.POD_NOT_TERMINATING,),
        otherwise="The node comes back, or a person deletes the pod by force.",
    ),
    _row(
        Phase.SCHEDULING, Bound.OUTSIDE, Actor.KUBERNETES, Phase.STARTING,
        otherwise="Room, the image or a volume appears, or the resource changes. An event has the kubelet's reason.",
    ),
    _row(
        Phase.STARTING, Bound.DEADLINE, Actor.DRIVER, Phase.RECOVERING, seconds=FIRST_REPORT_SECONDS,
        otherwise="The operator ends the attempt, which counts as a failure.",
    ),
    _row(
        Phase.RECOVERING, Bound.PROGRESS, Actor.DRIVER, Phase.RUNNING, seconds=NO_PROGRESS_SECONDS,
        otherwise="The operator ends the attempt, which counts as a failure.",
    ),
    _row(
        Phase.RUNNING, Bound.OUTSIDE, Actor.DRIVER, Phase.PREPARING, Phase.SNAPSHOTTING, Phase.STOPPING,
        Phase.RESCALING,
        otherwise="The attempt runs until the resource changes, or its driver ends.",
    ),
    _row(
        Phase.RUNNING, Bound.PROGRESS, Actor.DRIVER, Phase.STOPPING, seconds=LOST_SECONDS,
        reasons=(StopReason.HEARTBEAT_TIMEOUT,), otherwise="The operator ends the attempt, which counts as a failure.",
    ),
    _row(
        Phase.RUNNING, Bound.PROGRESS, Actor.DRIVER, Phase.STOPPING, seconds=NO_PROGRESS_SECONDS,
        reasons=(JobReason.DRAINING,), otherwise="The operator ends the attempt, which counts as a failure.",
    ),
    _row(
        Phase.RUNNING, Bound.OUTSIDE, Actor.PERSON, Phase.RUNNING,
        reasons=(JobReason.CHECKPOINT_STALLED, ConfigurationError.reason, JobReason.REVISION_REFUSED),
        otherwise="A person corrects what the message names. A stall also ends with the next checkpoint.",
    ),
    _row(
        Phase.RUNNING, Bound.OUTSIDE, Actor.KUBERNETES, Phase.RUNNING, reasons=(JobReason.EXECUTORS_PENDING,),
        otherwise="Room for executors appears, or the resource changes.",
    ),
    _row(
        Phase.RESCALING, Bound.DEADLINE, Actor.DRIVER, Phase.RUNNING, seconds=CONFIRM_SECONDS,
        reasons=(JobReason.RESCALE_REQUESTED,), otherwise="The driver stops, and the next attempt has the parallelism.",
    ),
    _row(
        Phase.RESCALING, Bound.DEADLINE, Actor.DRIVER, Phase.RUNNING, seconds=WITHDRAW_SECONDS,
        otherwise="The request is taken back, and the job continues with its parallelism.",
    ),
    _row(
        Phase.BACKING_OFF, Bound.DEADLINE, Actor.OPERATOR, Phase.SCHEDULING,
        otherwise="The next attempt starts. At the limit of failures the job is Failed instead.",
    ),
    _row(
        Phase.BACKING_OFF, Bound.OUTSIDE, Actor.OPERATOR, Phase.SCHEDULING, reasons=(JobReason.AWAITING_RESTART,),
        otherwise="Some of the other jobs that restart run. The operator looks again after 60 s.",
    ),
    _row(
        Phase.SUSPENDED, Bound.OUTSIDE, Actor.PERSON, Phase.SCHEDULING, otherwise="`spec.suspend` becomes false.",
    ),
    _row(
        Phase.FAILED, Bound.OUTSIDE, Actor.PERSON, Phase.SCHEDULING,
        otherwise="A person changes the resource, its modules or its state, as the message says.",
    ),
    _row(
        Phase.FINISHED, Bound.OUTSIDE, Actor.PERSON, Phase.SCHEDULING,
        otherwise="A person changes the resource. `spec.ttlSecondsAfterFinished` deletes it.",
    ),
    _row(
        Phase.DELETING, Bound.DEADLINE, Actor.OPERATOR, seconds=DELETION_SECONDS,
        otherwise="The finalizer is removed, and the event `TransactionsLeftOpen` has the command.",
    ),
)  # fmt: skip

_SPECIAL = {(row.phase, reason): row for row in TRANSITIONS for reason in row.reasons}
_GENERAL = {row.phase: row for row in TRANSITIONS if not row.reasons}


def transition_of(phase: Phase, reason: str) -> Transition:
    """How the phase ends; called for each status."""
    return _SPECIAL.get((phase, reason), _GENERAL[phase])
