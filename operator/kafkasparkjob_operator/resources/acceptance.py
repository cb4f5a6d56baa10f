"""Whether the operator starts a job: its fields, the names that it refers to, and the admission policy's limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafkasparkjob_operator.identity import ANNOTATION_METADATA, JobIdentity
from kafkasparkjob_operator.resources.driver_pod import driver_pod
from kafkasparkjob_operator.resources.executor_template import executor_pod_template
from kafkasparkjob_operator.resources.references import References, every_reference, references_of
from kafkasparkjob_operator.workload import NO_TEMPLATE, DesiredJob, JobSettings, desired_from_resource
from kafkasparkjob_operator.workload.allowed_names import KINDS
from sparkapp.model import commands, names
from sparkapp.model.errors import ConfigurationError, NameNotAllowed
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spec import Engine

EXECUTOR_LIMITS: Mapping[str, int] = {"secrets": 16, "configmaps": 4, "persistentvolumeclaims": 2, "audiences": 1}
"""Different names of a kind that a job's executors may refer to. The chart's admission policy of drivers has the same,
and room for the Secret of the attempt."""
MOST_REFERENCES = 64
"""References of an executor to Secrets, or to ConfigMaps, repetitions included; likewise."""
MOST_PROJECTED = 4
"""Projected volumes of an executor; likewise."""
MOST_METADATA = 32
"""Labels, annotations, node selectors and tolerations of templates on an executor. The cost of the admission policy
grows with them."""
MOST_METADATA_CHARACTERS = 8192
"""Their characters, names included."""
_IGNORES_NULLS = "spark.sql.jsonGenerator.ignoreNullFields"
_TITLES = {
    "images": "image", "secrets": "Secret", "configmaps": "ConfigMap", "audiences": "token audience",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}  # fmt: skip


def accepted_job(
    spec: Mapping[str, Any], *, job: JobIdentity, settings: JobSettings, recorded_image: str = ""
) -> DesiredJob:
    """Reads a spec that an attempt is to be started with.

    Called for the resource's spec at each plan, and for the last attempt's spec where the resource's is invalid. The
    spec of a running attempt is not judged again: what runs continues.

    :param recorded_image: the default image of an earlier attempt, for its spec.
    :raises NameNotAllowed: the administrator does not allow a name that the job refers to.
    :raises ConfigurationError: a field cannot work.
    """
    chosen = replace(settings, default_image=recorded_image or settings.default_image)
    desired = desired_from_resource(spec, namespace=job.namespace, name=job.name, settings=chosen)
    _check_places(desired)
    _check_settings(desired)
    _check_names(desired, job, settings)
    _check_limits(desired, job)
    return desired


def refusal_of(error: ConfigurationError, job: JobIdentity) -> str:
    """Message and remedy, as the condition ConfigValid and ``kafkaspark validate`` show them."""
    return f"{error.message}; {commands.remedy_in(error, namespace=job.namespace, name=job.name)}"


def _check_places(desired: DesiredJob) -> None:
    """
    :raises ConfigurationError: the job would wait for executors for ever.
    """
    subtasks, instances = desired.spec.parallelism, desired.workload.executor_instances
    cores = desired.workload.executor_cores
    if instances * cores < subtasks and chosen_engine(desired.spec)[0] is Engine.CONTINUOUS:
        msg = (
            f"spec.executor.instances: {instances} executors with {cores} cores have no place for {subtasks} subtasks,"
            " which the continuous engine runs at the same time"
        )
        least = math.ceil(subtasks / cores)
        remedy = f"remove spec.executor.instances, or set it to at least {least}, or set engine: MicroBatch"
        raise ConfigurationError(msg, remedy=remedy)


def _check_settings(desired: DesiredJob) -> None:
    """
    :raises ConfigurationError: a setting would change the JSON of a query, and the engine has no session for it.
    """
    if not desired.spec.transform.sql or chosen_engine(desired.spec)[0] is not Engine.CONTINUOUS:
        return
    if desired.workload.spark_conf.get(_IGNORES_NULLS, "true").strip().lower() != "true":
        msg = f"spec.sparkConf.{_IGNORES_NULLS}: the continuous engine leaves out null fields in the JSON of a query"
        raise ConfigurationError(msg, remedy="remove it, or set engine: MicroBatch")


def _check_names(desired: DesiredJob, job: JobIdentity, settings: JobSettings) -> None:
    if not settings.allowed.limits:
        return
    references = _own_references(desired, job, settings)
    for chart_kind, kind in KINDS.items():
        for name in references.of(kind):
            if not settings.allowed.allows(job.namespace, kind, name):
                msg = f"{_TITLES[kind]} {name!r} is not allowed in namespace {job.namespace}"
                remedy = (
                    f"name another {_TITLES[kind]}: kubectl edit ksj {job.name} -n {job.namespace}; or ask the"
                    f" administrator, whose list is job.allowedNames.{chart_kind} of the operator's chart"
                )
                raise NameNotAllowed(msg, remedy=remedy)


def _own_references(desired: DesiredJob, job: JobIdentity, settings: JobSettings) -> References:
    """The names that the job itself refers to, and not the administrator's defaults."""
    workload = desired.workload
    secrets = [name for name in workload.image_pull_secrets if name not in settings.image_pull_secrets]
    image = "" if workload.default_image and workload.image == settings.default_image else workload.image
    bare = replace(
        desired,
        workload=replace(
            workload,
            driver=replace(workload.driver, defaults=NO_TEMPLATE),
            executor=replace(workload.executor, defaults=NO_TEMPLATE),
        ),
    )
    pods = (driver_pod(job, bare, attempt=0, claim_uid=""), executor_pod_template(job, bare, attempt=0))
    found = References().union(references_of(pod, image=image, pull_secrets=secrets) for pod in pods)
    described, secret = names.attempt_config_map(job.name, job.uid, 0), names.spark_secret(job.name, job.uid, 0)
    return replace(
        found,
        images=tuple(name for name in found.images if name),
        secrets=tuple(name for name in found.secrets if name != secret),
        configmaps=tuple(name for name in found.configmaps if name != described),
    )


def _check_limits(desired: DesiredJob, job: JobIdentity) -> None:
    """
    :raises ConfigurationError: the admission policy would refuse each executor.
    """
    pod = executor_pod_template(job, desired, attempt=0)
    spec, text = pod["spec"], pod["metadata"].get("annotations", {}).get(ANNOTATION_METADATA, "")
    count = len(text.splitlines())
    if count > MOST_METADATA or len(text) > MOST_METADATA_CHARACTERS:
        msg = (
            f"the executors have {count} labels, annotations, node selectors and tolerations of templates with"
            f" {len(text)} characters; at most {MOST_METADATA} with {MOST_METADATA_CHARACTERS} characters are possible"
        )
        raise ConfigurationError(msg, remedy="remove some of them from spec.executor.podTemplate")
    found = [*every_reference(spec), *(("secrets", name) for name in desired.workload.image_pull_secrets)]
    found.remove(("secrets", names.spark_secret(job.name, job.uid, 0)))
    for kind, most in EXECUTOR_LIMITS.items():
        every = [name for other, name in found if other == kind]
        # The policy counts a claim for each of its volumes, and a token for each of its sources.
        counted = sorted(set(every)) if kind in {"secrets", "configmaps"} else every
        if len(counted) > most:
            listed = ", ".join(counted)
            msg = f"the executors refer to {len(counted)} {_TITLES[kind]}s ({listed}), and at most {most} are possible"
            raise ConfigurationError(msg, remedy=f"put what they have into {most} or fewer")
    for kind, count in Counter(kind for kind, _ in found if kind in {"secrets", "configmaps"}).items():
        if count > MOST_REFERENCES:
            msg = (
                f"the executors have {count} references to {_TITLES[kind]}s, and at most {MOST_REFERENCES} are possible"
            )
            raise ConfigurationError(msg, remedy="mount the object as a volume instead of naming each key")
    projected = len([volume for volume in spec["volumes"] if "projected" in volume])
    if projected > MOST_PROJECTED:
        msg = f"the executors have {projected} projected volumes, and at most {MOST_PROJECTED} are possible"
        raise ConfigurationError(msg, remedy="put their sources into fewer volumes")
