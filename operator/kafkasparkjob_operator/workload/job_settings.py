"""The administrator's settings for jobs: defaults, and the names that jobs may refer to."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasparkjob_operator.settings import Settings
from kafkasparkjob_operator.workload.allowed_names import AllowedNames, read_allowed_names
from kafkasparkjob_operator.workload.pod_template import NO_TEMPLATE, PodTemplate, read_pod_template
from sparkapp.model import names


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What the administrator decides for all jobs.

    :param default_image: of a job without ``spec.image``; empty requires the field.
    :param image_pull_secrets: added to those of each job.
    :param driver: default pod template of drivers; the job's own fields take precedence.
    :param executor: likewise, of executors.
    :param allowed: the names that jobs may refer to.
    """

    default_image: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    driver: PodTemplate = NO_TEMPLATE
    executor: PodTemplate = NO_TEMPLATE
    allowed: AllowedNames = field(default_factory=AllowedNames)


NO_SETTINGS = JobSettings()


def read_job_settings(settings: Settings) -> JobSettings:
    """Reads the settings once, when the operator starts.

    :raises ConfigurationError: a template sets a field that no template may set, or a list cannot be read.
    """
    return JobSettings(
        default_image=settings.default_job_image,
        image_pull_secrets=settings.job_image_pull_secrets,
        driver=read_pod_template(settings.driver_pod_template, "job.driver.podTemplate", role=names.ROLE_DRIVER),
        executor=read_pod_template(
            settings.executor_pod_template, "job.executor.podTemplate", role=names.ROLE_EXECUTOR
        ),
        allowed=read_allowed_names(settings.allowed_names, "job.allowedNames"),
    )
