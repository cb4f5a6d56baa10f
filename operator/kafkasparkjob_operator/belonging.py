"""Which pods are a job's. Labels and owner references prove nothing: whoever may create a pod writes them at will.

An attempt exists by the ConfigMap that the operator made for it (ADR 6). Its driver is the pod that

* ``status.attempt`` records by UID, or
* carries the UID of the attempt's ConfigMap, which nobody knows before the operator creates that pod, under the
  attempt's own name; a later one than a recorded driver that is there only awaits its turn.

An executor is a pod that such a driver owns. Every other pod that is labelled as the job's is foreign: it is named by
an event, and decides nothing (ADR 30).
"""

from __future__ import annotations

from dataclasses import replace

from kafkasparkjob_operator.observation import Observation, recorded_number
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.status import StatusDraft
from sparkapp.model import names

FOREIGN_NAMED = 10
"""Foreign objects that events name at a time."""


def with_own_pods(observation: Observation) -> Observation:
    """The observation with the pods of the job's attempts in ``pods`` and all others in ``foreign``.

    Called by the state machine before anything else.
    """
    number, uid = recorded_number(observation.job), observation.job.driver_uid
    own = [_recorded(observation, pod, number) for pod in observation.pods if uid and pod.uid == uid]
    there = any(not pod.deleting for pod in own)
    drivers = {uid: number} if uid else {}
    foreign: list[PodView] = []
    for pod in observation.pods:
        if pod.role != names.ROLE_DRIVER or (uid and pod.uid == uid):
            continue
        if _is_claimed(observation, pod, recorded=number if uid else 0, beside=there) or _is_former(observation, pod):
            own.append(pod)
            drivers[pod.uid] = pod.attempt
        else:
            foreign.append(pod)
    for pod in observation.pods:
        if pod.role == names.ROLE_DRIVER or pod in foreign:
            continue
        if pod.driver_uid in drivers:
            own.append(replace(pod, attempt=drivers[pod.driver_uid]))
        elif pod.attempt not in drivers.values() and _is_left_over(observation, pod):
            own.append(pod)
        else:
            foreign.append(pod)
    return replace(observation, pods=tuple(own), foreign=tuple(foreign))


def tell_foreign(draft: StatusDraft, observation: Observation) -> tuple[PodView, ...]:
    """Names foreign objects by events.

    Called by the state machine with the outcome of :func:`with_own_pods`.

    :returns: the pods to delete: drivers that name this resource as their owner, so that it may dispose of them. An
        operator that stood still while another one withdrew its claim makes such a pod, too.
    """
    job = observation.job.identity
    pods = observation.foreign
    found = [(pod.uid, f"pod {pod.name} ({pod.role}, attempt {pod.attempt or 'unknown'})") for pod in pods]
    if observation.live is not None:
        found += [(name, f"ConfigMap {name}") for name in observation.live.foreign]
    for identity, what in sorted(found)[:FOREIGN_NAMED]:
        message = (
            f"{what} has this job's labels, and the operator did not make it: it is not counted as an attempt or an"
            f" executor. Fix: kubectl get pods,configmaps --namespace {job.namespace} --selector"
            f" {names.LABEL_JOB}={job.name} --show-labels, and delete what is not the job's"
        )
        draft.event(f"foreign/{identity}", "ForeignObject", message, warning=True)
    return tuple(pod for pod in pods if pod.role == names.ROLE_DRIVER and pod.owner_uid == job.uid)


def _recorded(observation: Observation, pod: PodView, number: int) -> PodView:
    """The driver of the status, whatever its labels say by now."""
    uid = observation.job.identity.uid
    return replace(pod, attempt=number, role=names.ROLE_DRIVER, owner_uid=uid, awaits_turn=False)


def _is_claimed(observation: Observation, pod: PodView, *, recorded: int, beside: bool) -> bool:
    """A driver that the operator made, and that is not the recorded one.

    It awaits its turn, is an earlier one that a silent node still runs, or was started when the status was not written.

    :param beside: the recorded driver is there, and is not being deleted: a later one can only await its turn.
    """
    return (
        pod.owner_uid == observation.job.identity.uid
        and pod.attempt != recorded
        and (pod.awaits_turn or pod.attempt < recorded or not beside)
        and pod.name == names.driver_pod(observation.job.identity.name, pod.attempt)
        and bool(pod.claim_uid)
        and observation.claims.get(pod.attempt) == pod.claim_uid
    )


def _is_former(observation: Observation, pod: PodView) -> bool:
    """A driver of a deleted resource of the same name. Gone before the first attempt of this one starts."""
    job = observation.job
    return (
        not job.status.get("attempt")
        and pod.owner_uid not in {"", job.identity.uid}
        and pod.name == names.driver_pod(job.identity.name, pod.attempt)
    )


def _is_left_over(observation: Observation, pod: PodView) -> bool:
    """An executor whose driver is gone: of an attempt that has a ConfigMap, or of a deleted resource."""
    return pod.driver_name == names.driver_pod(observation.job.identity.name, pod.attempt) and (
        pod.attempt in observation.claims or not observation.job.status.get("attempt")
    )
