"""ConfigValid: whether the resource's spec can start an attempt."""

from __future__ import annotations

from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.resources.acceptance import accepted_job, refusal_of
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.status import StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, JobSettings
from sparkapp.model.errors import ConfigurationError, NameNotAllowed


def judge_specification(draft: StatusDraft, job: JobResource, settings: JobSettings) -> DesiredJob | None:
    """Reads the spec and writes the condition; called for every plan of a job that is not being deleted.

    :param settings: the administrator's, for all jobs.
    :returns: None where the spec is invalid, or refers to a name that is not allowed.
    """
    identity = job.identity
    try:
        desired = accepted_job(job.spec, job=identity, settings=settings)
    except ConfigurationError as error:
        message = refusal_of(error, identity)
        draft.condition(ConditionType.CONFIG_VALID, ConditionStatus.FALSE, reason=error.reason, message=message)
        reason = error.reason if isinstance(error, NameNotAllowed) else "ValidationFailed"
        draft.event(f"invalid/{job.generation}", reason, message, warning=True)
        return None
    draft.condition(ConditionType.CONFIG_VALID, ConditionStatus.TRUE, reason="Valid")
    return desired
