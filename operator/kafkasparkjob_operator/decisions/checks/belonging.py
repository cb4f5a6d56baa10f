"""The pods of a job. Labels and owner references prove nothing: a user with the right to create pods can write them.

An attempt exists by the ConfigMap that the operator made for it (ADR 6). Its driver is a pod that fulfils either rule:

* ``status.attempt`` records its UID.
* It has the attempt's name and the UID of the attempt's ConfigMap. Nobody knows that UID before the operator creates
  the pod. Next to a recorded driver, a pod of a later attempt can only be a standby driver.

An executor is a pod that such a driver owns. Every other pod with the job's labels is foreign: an event names it, and
it decides nothing (ADR 30).
"""

from __future__ import annotations

from dataclasses import replace

from kafkasparkjob_operator.observation.observation import Observation, recorded_number
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import StatusDraft
from sparkapp.model import names

FOREIGN_NAMED = 10
"""Foreign objects that get an event at a time."""


def with_own_pods(observation: Observation) -> Observation:
    """The observation with the pods of the job's attempts in ``pods`` and all others in ``foreign``.

    Called by the state machine before anything else.
    """
    number, uid = recorded_number(observation.job), observation.job.driver_uid
    own = [_recorded(observation, pod, number) for pod in observation.pods if uid and pod.uid == uid]
    present = any(not pod.deleting for pod in own)
    drivers = {uid: number} if uid else {}
    foreign: list[PodView] = []
    for pod in observation.pods:
        if pod.role != names.ROLE_DRIVER or (uid and pod.uid == uid):
            continue
        if _is_claimed(observation, pod, recorded=number if uid else 0, present=present) or _is_of_deleted_job(
            observation, pod
        ):
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


def report_foreign(draft: StatusDraft, observation: Observation) -> tuple[PodView, ...]:
    """Publishes an event for each foreign object.

    Called by the state machine with the result of :func:`with_own_pods`.

    :returns: the pods to delete: drivers that name this resource as their owner. An operator that stood still while its
        claim was withdrawn creates such a pod, too.
    """
    job = observation.job.identity
    pods = observation.foreign
    found = [(pod.uid, f"pod {pod.name} ({pod.role}, attempt {pod.attempt or 'unknown'})") for pod in pods]
    if observation.live is not None:
        found += [(name, f"ConfigMap {name}") for name in observation.live.foreign]
    for identity, what in sorted(found)[:FOREIGN_NAMED]:
        message = (
            f"{what} has this job's labels, but the operator did not create it, so it is ignored. Delete it or remove"
            f" its labels: kubectl get pods,configmaps -n {job.namespace} -l {names.LABEL_JOB}={job.name} --show-labels"
        )
        draft.event(f"foreign/{identity}", JobReason.FOREIGN_OBJECT, message, warning=True)
    return tuple(pod for pod in pods if pod.role == names.ROLE_DRIVER and pod.owner_uid == job.uid)


def _recorded(observation: Observation, pod: PodView, number: int) -> PodView:
    """The driver that the status records, whatever its labels say."""
    uid = observation.job.identity.uid
    return replace(pod, attempt=number, role=names.ROLE_DRIVER, owner_uid=uid, awaits_activation=False)


def _is_claimed(observation: Observation, pod: PodView, *, recorded: int, present: bool) -> bool:
    """True for a driver that the operator made, other than the recorded driver.

    It is a standby driver, an earlier driver that a silent node still runs, or its start is not in the status.

    :param present: the recorded driver exists and is not being deleted: a later driver can only be a standby driver.
    """
    return (
        pod.owner_uid == observation.job.identity.uid
        and pod.attempt != recorded
        and (pod.awaits_activation or pod.attempt < recorded or not present)
        and pod.name == names.driver_pod(observation.job.identity.name, pod.attempt)
        and bool(pod.claim_uid)
        and observation.claims.get(pod.attempt) == pod.claim_uid
    )


def _is_of_deleted_job(observation: Observation, pod: PodView) -> bool:
    """True for a driver of a deleted resource of the same name, which is gone before the first attempt starts."""
    job = observation.job
    return (
        not job.status.get("attempt")
        and pod.owner_uid not in {"", job.identity.uid}
        and pod.name == names.driver_pod(job.identity.name, pod.attempt)
    )


def _is_left_over(observation: Observation, pod: PodView) -> bool:
    """True for an executor without a driver: of an attempt that has a ConfigMap, or of a deleted resource."""
    return pod.driver_name == names.driver_pod(observation.job.identity.name, pod.attempt) and (
        pod.attempt in observation.claims or not observation.job.status.get("attempt")
    )
