"""The result of the state machine: actions, the status to write, the events to publish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.resources.references import References
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.reasons import StopReason
from kafkasparkjob_operator.status.snapshot_fields import SnapshotTrigger
from kafkasparkjob_operator.workload import DesiredJob


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateState:
    """Create the empty state ConfigMap: once, before the first attempt of the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawClaim:
    """Delete the ConfigMap of an attempt whose driver was never created, before another attempt starts.

    An operator that creates the driver after a long standstill creates a pod without its volume, which cannot run.

    :param name: of the ConfigMap, which ``uid`` identifies.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAttempt:
    """Create everything that an attempt needs, its driver last.

    :param awaits_activation: the driver is a standby driver and waits for :class:`Activate`.
    :param takes_over: likewise, and it prepares all that it can.
    :param settles: the driver settles the transactions of earlier attempts and ends.
    :param removes_state: likewise, and it removes the query state of the deleted job.
    :param referenced: what executors of earlier attempts refer to; they may still run.
    :param code: digest of the user's modules; empty without any, or where they are to be read.
    :param snapshot: that the attempt begins at; empty for none.
    :param stateless: the first attempt that was to begin without the checkpoint; 0 for none.
    :param withdrawn: claims of attempts without a driver. They are withdrawn between the claim of this attempt and its
        driver. So a number above theirs is taken, whatever answer is lost.
    """

    attempt: int
    generation: int
    desired: DesiredJob
    resource_spec: Mapping[str, Any]
    awaits_activation: bool = False
    takes_over: bool = False
    settles: bool = False
    removes_state: bool = False
    referenced: References = field(default_factory=References)
    code: str = ""
    snapshot: str = ""
    stateless: int = 0
    withdrawn: tuple[WithdrawClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Activate:
    """Activate a standby driver, identified by UID. Every pod of every previous attempt is gone, unless ``is_next``.

    :param is_next: the driver begins by itself, when the attempt before it has drained.
    """

    name: str
    uid: str
    is_next: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForScale:
    """Ask a running driver, identified by UID, for another number of subtasks in place.

    :param at: the present time, as Kubernetes writes it.
    """

    name: str
    uid: str
    parallelism: int
    executors: int
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFailure:
    """Write the number of an executor's failure on its pod, before the status counts it."""

    name: str
    uid: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete a pod, identified by UID; a driver drains in its grace period.

    :param grace_seconds: None for the grace period of the pod.
    """

    name: str
    uid: str
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAttemptRecord:
    """Delete the ConfigMap of an attempt or of a revision, or a copy of modules, that is no longer needed.

    :param name: of the ConfigMap, which ``uid`` identifies.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldResource:
    """Give the resource the operator's finalizer: its deletion waits until its transactions are settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseResource:
    """Take the operator's finalizer off the resource: Kubernetes may remove it, and collects what it owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResource:
    """Delete the resource at the version of the plan: it is Finished, and its time has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSnapshot:
    """Create a KafkaSparkSnapshot of the job; one of that name that exists is the operator's own, of an earlier try.

    :param owned: Kubernetes deletes it with the job.
    """

    name: str
    trigger: SnapshotTrigger
    owned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSnapshot:
    """Delete a KafkaSparkSnapshot that the operator has made, identified by UID.

    :param successor: a snapshot that is Ready, and without which it stays; empty where it holds nothing.
    :param successor_uid: its UID.
    """

    name: str
    uid: str
    successor: str
    successor_uid: str


def deletions(pods: Iterable[PodView], *, grace_seconds: int | None = None) -> tuple[DeletePod, ...]:
    """Deletions of the pods that are not being deleted yet, and of those whose containers have all ended.

    The latter are removed at once, as the API server removes a pod that ends before its deletion. The kubelet would
    need another second, which the next attempt waits for.
    """
    return tuple(
        DeletePod(name=pod.name, uid=pod.uid, grace_seconds=0 if pod.awaits_removal else grace_seconds)
        for pod in pods
        if pod.awaits_removal or not pod.deleting
    )


Action = (
    CreateState | WithdrawClaim | StartAttempt | Activate | AskForScale | NumberFailure | DeletePod
    | DeleteAttemptRecord | HoldResource | ReleaseResource | DeleteResource | CreateSnapshot | DeleteSnapshot
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The verdict about the heartbeat of a driver.

    :param stale: the report says nothing about the present.
    :param lost: the attempt has to end.
    :param change_after: seconds after which time alone changes the verdict; None where it does not.
    :param silent_at: age of the report at which the verdict changes, where each report puts that off; else None.
    :param reason: of the status.
    """

    stale: bool = False
    lost: bool = False
    change_after: float | None = None
    silent_at: float | None = None
    reason: StopReason = StopReason.HEARTBEAT_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a look at a job.

    :param status: the whole status; equal to the resource's where nothing is to be written.
    :param look_again_after: seconds after which time alone may change the plan.
    :param silence: when the silence of the driver may change the plan.
    :param restarts: the job restarts, and counts among the jobs that do.
    :param awaits_restart: too many others do (:class:`~..observation.restarting.RestartingJobs`).
    :param asks_room: the autoscaler wants to grow: read the quotas of the namespace, and plan again.
    :param needs_live: the cache is not enough: look at the API server and plan again. All other fields are empty.
    """

    actions: tuple[Action, ...] = ()
    status: Mapping[str, Any] | None = None
    events: tuple[JobEvent, ...] = ()
    look_again_after: float | None = None
    silence: Silence = field(default_factory=Silence)
    restarts: bool = False
    awaits_restart: bool = False
    asks_room: bool = False
    needs_live: bool = False

    @property
    def starts(self) -> bool:
        """True where an attempt starts that the job needs; a standby attempt is a help and never a condition."""
        return any(
            (isinstance(action, Activate) and not action.is_next)
            or (isinstance(action, StartAttempt) and not action.awaits_activation)
            for action in self.actions
        )


NEEDS_LIVE = Plan(needs_live=True)
NOTHING = Plan()
