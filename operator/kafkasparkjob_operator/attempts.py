"""Numbers of attempts: they only grow, whatever is lost, so that two lives of a job never share a name."""

from __future__ import annotations

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation import AttemptRecord, Live, Observation, recorded_number
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.workload import Wanted, wanted_from_resource
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError


def own_drivers(observation: Observation) -> list[PodView]:
    """Driver pods of this life of the resource; those of a deleted one of the same name are strangers.

    Without successors: what awaits its turn has done nothing for the job yet.
    """
    return [pod for pod in _drivers(observation) if not pod.awaits_turn]


def successors(observation: Observation) -> list[PodView]:
    """Driver pods of this life of the resource that have come up beside another one, or tried to; newest first."""
    found = [pod for pod in _drivers(observation) if pod.awaits_turn]
    return sorted(found, key=lambda pod: pod.attempt, reverse=True)


def _drivers(observation: Observation) -> list[PodView]:
    uid = observation.job.identity.uid
    return [pod for pod in observation.pods if pod.role == names.ROLE_DRIVER and pod.owner_uid == uid]


def recorded_attempt(observation: Observation) -> int:
    """The attempt that the status speaks of; 0 before the first one."""
    return recorded_number(observation.job)


def current_attempt(observation: Observation) -> int:
    """The newest attempt of this life of the resource; a status that was lost or not yet written changes nothing."""
    return max([recorded_attempt(observation), *(pod.attempt for pod in own_drivers(observation))])


def next_attempt(observation: Observation, live: Live) -> int:
    """A number above every one that anything still remembers: status, pods, attempt ConfigMaps, state document.

    Foreign objects raise no number; one under the name of an attempt makes that attempt impossible, it is passed over.
    """
    document = live.state.document
    number = 1 + max(
        [
            current_attempt(observation),
            document.attempt if document is not None else 0,
            *(pod.attempt for pod in observation.pods),
            *(record.attempt for record in live.records),
        ]
    )
    job = observation.job.identity.name
    taken = {pod.name for pod in observation.foreign} | set(live.foreign)
    while {names.driver_pod(job, number), names.attempt_config_map(job, number)} & taken:
        number += 1
    return number


def record_of(live: Live, attempt: int, uid: str) -> AttemptRecord | None:
    """The ConfigMap of an attempt of this life of the resource."""
    return next((one for one in live.records if one.attempt == attempt and one.owner_uid == uid), None)


def spec_of(live: Live, attempt: int, job: JobIdentity) -> Wanted | None:
    """What an attempt was started with, read by this release, so that an upgrade alone restarts nothing."""
    record = record_of(live, attempt, job.uid)
    if record is None:
        return None
    try:
        return wanted_from_resource(record.spec, namespace=job.namespace, name=job.name)
    except ConfigurationError:
        return None


def unused_claims(observation: Observation, live: Live) -> tuple[AttemptRecord, ...]:
    """ConfigMaps of attempts that nothing else has ever heard of: an operator is about to create the driver, or ended
    just before. Two operators that act at once must not both start one, so a young claim is somebody's."""
    document = live.state.document
    heard_of = [pod.attempt for pod in successors(observation)]
    known = max(current_attempt(observation), document.attempt if document is not None else 0, *heard_of)
    uid = observation.job.identity.uid
    return tuple(record for record in live.records if record.owner_uid == uid and record.attempt > known)


def attempts_ran(observation: Observation, live: Live) -> bool:
    """True where this life of the resource has had an attempt, by any account."""
    uid = observation.job.identity.uid
    return current_attempt(observation) > 0 or any(record.owner_uid == uid for record in live.records)
