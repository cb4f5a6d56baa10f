"""The administrator's settings for jobs: defaults, and the names that jobs may refer to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasparkjob_operator.settings import IMAGE_USER, Settings
from kafkasparkjob_operator.workload.allowed_names import AllowedNames, read_allowed_names
from kafkasparkjob_operator.workload.pod_template import NO_TEMPLATE, PodTemplate, read_pod_template
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError

PodUser = Mapping[str, int]
"""Fields of a pod's security context: ``runAsUser``, ``runAsGroup`` and ``fsGroup``."""
_MAX_ID = 2**31 - 1
CLUSTER_ID = re.compile(r"[a-z0-9]{1,16}")
"""Without a hyphen, which stands before the numbers of transactional ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What the administrator decides for all jobs.

    :param default_image: of a job without ``spec.image``; empty requires the field.
    :param image_pull_secrets: added to those of each job.
    :param driver: default pod template of drivers; the job's own fields take precedence.
    :param executor: likewise, of executors.
    :param user: user and groups of the pods; a missing one is the platform's choice.
    :param allowed: the names that jobs may refer to.
    :param cluster_id: in default names at Kafka: of new jobs, or of the job that the settings were narrowed to
        (:func:`~kafkasparkjob_operator.decisions.attempts.settings_of`). Empty for none.
    """

    default_image: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    driver: PodTemplate = NO_TEMPLATE
    executor: PodTemplate = NO_TEMPLATE
    user: PodUser = field(default_factory=lambda: dict(IMAGE_USER))
    allowed: AllowedNames = field(default_factory=AllowedNames)
    cluster_id: str = ""


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
        user=_user(settings.job_pod_security_context, "job.podSecurityContext"),
        allowed=read_allowed_names(settings.allowed_names, "job.allowedNames"),
        cluster_id=_cluster_id(settings.cluster_id),
    )


def _cluster_id(text: str) -> str:
    if text and not CLUSTER_ID.fullmatch(text):
        msg = f"operator.clusterId: {text!r} is not 1 to 16 lower case letters and digits"
        raise ConfigurationError(msg, remedy="correct the values of the chart")
    return text


def _user(value: Mapping[str, Any], path: str) -> PodUser:
    given = {name: number for name, number in value.items() if number is not None}
    for name, number in given.items():
        if name not in IMAGE_USER or type(number) is not int or not 1 <= number <= _MAX_ID:
            known = ", ".join(IMAGE_USER)
            msg = f"{path}: {name}: {number!r}: {known} are numbers from 1 to {_MAX_ID}, or null"
            raise ConfigurationError(msg, remedy="correct the values of the chart")
    return given
