"""A pod of a job, reduced to what the state machine decides by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.identity import (
    ANNOTATION_ASKED,
    ANNOTATION_CLAIM,
    ANNOTATION_FAILURE,
    ANNOTATION_GENERATION,
    ANNOTATION_REFUSED,
    ANNOTATION_REVISION,
    ANNOTATION_SOURCE,
    ANNOTATION_STANDBY_PARALLELISM,
    owner_uid,
)
from kafkasparkjob_operator.resources.executor_template import EXECUTOR_CONTAINER
from kafkasparkjob_operator.resources.pod_parts import CODE_VOLUME
from sparkapp.model import names

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
_MAX_DIGITS = 9
_REASON = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_MAX_NAME = 253
"""Characters of a name or UID in a reference or an annotation, which the API server does not limit."""
_MAX_TEXT = 8192
"""Characters of a message; a termination message of the kubelet has at most 4096 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A driver or executor pod.

    :param owner_uid: UID of the resource that owns a driver; empty for executors, which a driver owns.
    :param driver_name: name of the pod that owns an executor; empty for a driver.
    :param driver_uid: UID of that pod.
    :param claim_uid: UID of the attempt's ConfigMap, as the pod says; untrusted until compared.
    :param attempt: from the label; 0 where the label is missing or not a number.
    :param generation: of the resource that a standby driver was started for; else 0.
    :param standby_parallelism: of a standby driver; 0 for others, and for those of a previous release.
    :param failure: the number of a failed executor's failure, once it is counted; else 0. Untrusted: the driver
        makes the pod.
    :param standby_refused: of a driver: the generation for which no standby driver could be created; else 0.
    :param asked_parallelism: of a driver that was asked for a rescale in place; else 0. ``asked_at`` says when.
    :param code: of a driver: the user's ConfigMap whose modules it has; else empty.
    :param revision: of a driver: the ConfigMap of its revision; empty for a driver of an earlier release.
    :param awaits_activation: a standby driver, which touches nothing of the job yet.
    :param is_next: a standby driver that begins by itself when the attempt before it has drained.
    :param created: by the API server's clock; None where it cannot be read.
    :param gone_by: end of the grace period of a pod that is being deleted; it counts as alive until it is gone.
    :param grace_seconds: the grace period of that deletion; 0 where the API server was asked to remove the pod at once.
    :param started_at: when the container that runs was started, by the kubelet's clock; else None.
    :param ended: driver or executor container has terminated and is not started again; a sidecar may still run.
    :param ready: False where Kubernetes calls a running container not ready: its node no longer answers.
    :param stopped_reason: why the container or the pod stopped, from the kubelet.
    :param termination_message: written by the container; untrusted.
    :param waiting_reason: why the pod does not run yet: ImagePullBackOff, Unschedulable …
    """

    name: str
    uid: str
    attempt: int
    role: str
    phase: str
    owner_uid: str = ""
    driver_name: str = ""
    driver_uid: str = ""
    claim_uid: str = ""
    generation: int = 0
    standby_parallelism: int = 0
    failure: int = 0
    standby_refused: int = 0
    asked_parallelism: int = 0
    asked_at: datetime | None = None
    code: str = ""
    revision: str = ""
    awaits_activation: bool = False
    is_next: bool = False
    created: datetime | None = None
    node: str = ""
    gone_by: datetime | None = None
    grace_seconds: int = 0
    started: bool = False
    started_at: datetime | None = None
    ended: bool = False
    ready: bool = True
    stopped_reason: str = ""
    stopped_message: str = ""
    exit_code: int | None = None
    termination_message: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""

    @property
    def finished(self) -> bool:
        """Driver or executor has ended; the pod may stay for ``kubectl logs``."""
        return self.ended or self.phase in FINISHED_PHASES

    @property
    def deleting(self) -> bool:
        return self.gone_by is not None

    @property
    def awaits_removal(self) -> bool:
        """It is being deleted, all its containers have ended, and the kubelet has not removed it yet."""
        return self.deleting and self.phase in FINISHED_PHASES and self.grace_seconds > 0


def pod_view(body: Mapping[str, Any]) -> PodView | None:
    """Reads a pod of the API; None for a pod that is neither driver nor executor.

    Every part of the status may be missing: an evicted pod has no container statuses.
    """
    meta, status = body["metadata"], body.get("status") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    role = labels.get(names.LABEL_ROLE, "")
    if role not in {names.ROLE_DRIVER, names.ROLE_EXECUTOR}:
        return None
    statuses = status.get("containerStatuses") or ()
    own = names.DRIVER_CONTAINER if role == names.ROLE_DRIVER else EXECUTOR_CONTAINER
    state = next((found.get("state") or {} for found in statuses if found.get("name") == own), {})
    terminated = state.get("terminated") or {}
    waiting_reason, waiting_message = _waiting(status, state)
    owners = meta.get("ownerReferences") or ()
    driver: Mapping[str, Any] = next((owner for owner in owners if owner.get("kind") == "Pod"), {})
    return PodView(
        name=meta["name"],
        uid=meta["uid"],
        attempt=number_of(labels.get(names.LABEL_ATTEMPT, "")),
        role=role,
        phase=status.get("phase") or "Pending",
        owner_uid=owner_uid(body),
        driver_name=str(driver.get("name", ""))[:_MAX_NAME],
        driver_uid=str(driver.get("uid", ""))[:_MAX_NAME],
        claim_uid=str(annotations.get(ANNOTATION_CLAIM, ""))[:_MAX_NAME],
        generation=number_of(annotations.get(ANNOTATION_GENERATION, "")),
        standby_parallelism=number_of(annotations.get(ANNOTATION_STANDBY_PARALLELISM, "")),
        failure=number_of(annotations.get(ANNOTATION_FAILURE, "")),
        standby_refused=number_of(annotations.get(ANNOTATION_REFUSED, "")),
        asked_parallelism=number_of(annotations.get(names.ANNOTATION_PARALLELISM, "")),
        asked_at=parse_time(annotations.get(ANNOTATION_ASKED)),
        code=_code(body) if role == names.ROLE_DRIVER else "",
        revision=str(annotations.get(ANNOTATION_REVISION, ""))[:_MAX_NAME],
        awaits_activation=annotations.get(names.ANNOTATION_TURN) in {names.TURN_AWAITED, names.TURN_NEXT},
        is_next=annotations.get(names.ANNOTATION_TURN) == names.TURN_NEXT,
        created=parse_time(meta.get("creationTimestamp")),
        node=(body.get("spec") or {}).get("nodeName") or "",
        gone_by=parse_time(meta.get("deletionTimestamp")),
        grace_seconds=int(meta.get("deletionGracePeriodSeconds") or 0),
        started="running" in state or "terminated" in state,
        started_at=parse_time((state.get("running") or {}).get("startedAt")),
        # The operator's pods are never restarted in place (restartPolicy is Never).
        ended="terminated" in state,
        ready=not ("running" in state and _condition(status, "Ready") == "False"),
        # The reason of the pod (Evicted, NodeLost, Terminated) says more than the container's exit code.
        stopped_reason=_reason(status.get("reason") or terminated.get("reason") or ""),
        stopped_message=(status.get("message") or "")[:_MAX_TEXT],
        exit_code=terminated.get("exitCode"),
        termination_message=(terminated.get("message") or "")[:_MAX_TEXT],
        waiting_reason=_reason(waiting_reason),
        waiting_message=waiting_message[:_MAX_TEXT],
    )


def number_of(text: str) -> int:
    """The number in a label, an annotation or a ConfigMap; 0 where it is no number or too long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0


def _code(body: Mapping[str, Any]) -> str:
    """Its volume has a copy; drivers of an earlier release mount the user's ConfigMap."""
    source = (body["metadata"].get("annotations") or {}).get(ANNOTATION_SOURCE)
    if source is not None:
        return str(source)[:_MAX_NAME]
    volumes = (body.get("spec") or {}).get("volumes") or ()
    mounted: Mapping[str, Any] = next((volume for volume in volumes if volume.get("name") == CODE_VOLUME), {})
    return str((mounted.get("configMap") or {}).get("name", ""))[:_MAX_NAME]


def _reason(text: str) -> str:
    """A reason of Kubernetes in CamelCase. A writer of the pod's status could write any text."""
    return text if not text or _REASON.fullmatch(text) else "Unknown"


def _condition(status: Mapping[str, Any], kind: str) -> str:
    conditions = status.get("conditions") or ()
    return next((found.get("status") or "" for found in conditions if found.get("type") == kind), "")


def _waiting(status: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[str, str]:
    waiting = state.get("waiting") or {}
    reason = waiting.get("reason") or ""
    if reason and reason not in {"ContainerCreating", "PodInitializing"}:
        return reason, waiting.get("message") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason") or "Unschedulable", condition.get("message") or ""
    return "", ""
