"""What the state machine asks for: a few actions, the status to write, the events to publish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.events import JobEvent
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.workload import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateState:
    """Create the empty state ConfigMap: once in the resource's life, before its first attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawClaim:
    """Delete, before another attempt is started, the ConfigMap of one whose driver was never created.

    A pod that an operator creates for it after a long standstill lacks its volume then, and can never run.
    """

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAttempt:
    """Create everything that an attempt needs, its driver last.

    :param awaits_turn: beside another attempt: the driver comes up and waits for :class:`GiveTurn`.
    """

    attempt: int
    generation: int
    wanted: Wanted
    resource_spec: Mapping[str, Any]
    awaits_turn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveTurn:
    """Let a driver that awaits its turn go on, that one by UID: every pod of every former attempt is gone."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete a pod, that one by UID: a driver drains meanwhile.

    :param grace_seconds: None for the pod's own.
    """

    name: str
    uid: str
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAttemptRecord:
    """Delete the ConfigMap of an attempt that nothing needs any more."""

    attempt: int


def deletions(pods: Iterable[PodView], *, grace_seconds: int | None = None) -> tuple[DeletePod, ...]:
    """Of those that are not being deleted yet."""
    return tuple(DeletePod(name=pod.name, uid=pod.uid, grace_seconds=grace_seconds) for pod in pods if not pod.deleting)


Action = CreateState | WithdrawClaim | StartAttempt | GiveTurn | DeletePod | DeleteAttemptRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one look at a job.

    :param status: the whole status as it should be; equal to the resource's where nothing is to be written.
    :param look_again_after: seconds after which time alone may change the answer.
    :param needs_live: the cache is not enough to decide: look at the API server and plan again. Nothing else counts.
    """

    actions: tuple[Action, ...] = ()
    status: Mapping[str, Any] | None = None
    events: tuple[JobEvent, ...] = ()
    look_again_after: float | None = None
    needs_live: bool = False


NEEDS_LIVE = Plan(needs_live=True)
NOTHING = Plan()
