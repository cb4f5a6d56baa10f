"""A resource of a file with what it refers to on this machine: its code, and the variables of its pods."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafkaspark.local.code import Files
from kafkaspark.manifests import identity_of, name_of, no_job, objects, resources
from kafkasparkjob_operator.identity import API_VERSION, JobIdentity
from kafkasparkjob_operator.resources.acceptance import accepted_job, refusal_of
from kafkasparkjob_operator.workload import NO_SETTINGS, DesiredJob
from kafkasparkjob_operator.workload.fields import OperatorSpec
from sparkapp.model import names
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import unknown_fields
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine, Job, JobSpec

SETTINGS = replace(NO_SETTINGS, default_image="job.image")
"""Of an operator with a default image, and without lists of allowed names: only the cluster has them."""
KUSTOMIZATION = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_UID = f"local-{os.getpid()}"
"""Files of dead letters of two processes differ by it."""
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A job that can run here.

    :param files: its modules.
    :param watched: files that it was read from.
    :param environment: variables of driver and executors with a value.
    :param unset: variables whose values only the cluster has, and that this process does not have either.
    :param spark_conf: ``spec.sparkConf``.
    """

    job: Job
    files: Files
    watched: tuple[Path, ...]
    environment: Mapping[str, str]
    unset: tuple[str, ...]
    spark_conf: Mapping[str, str]


def read_project(file: Path, *, name: str = "", namespace: str = "default", environ: Mapping[str, str]) -> Project:
    """Reads a resource of a file of manifests.

    :param name: of the resource, where the file has several.
    :param namespace: of a resource that names none.
    :param environ: variables of this process.
    :raises InputUnreadable: the file cannot be read, or has no job.
    :raises ConfigurationError: the operator refuses the resource, or its code is not found.
    """
    bodies = list(objects(str(file)))
    return project_of(
        chosen_job(bodies, file, name),
        folder=file.parent,
        file=file,
        others=bodies,
        namespace=namespace,
        environ=environ,
    )


def chosen_job(bodies: Sequence[Mapping[str, Any]], file: Path, name: str) -> Mapping[str, Any]:
    """The job of a command that takes a single job.

    :param bodies: the objects of the file. :param name: empty for the only job.
    :raises InputUnreadable: the file has no job.
    :raises ConfigurationError: it has several, or none of the name.
    """
    jobs = resources(bodies)
    if not jobs:
        raise no_job(str(file), dict.fromkeys(str(body.get("kind")) for body in bodies))
    chosen = [body for body in jobs if name in {"", name_of(body)}]
    if len(chosen) != 1:
        named = f" named {name}" if name else ""
        listed = ", ".join(name_of(body) or "a job without a name" for body in jobs)
        msg = f"{file} has {len(chosen)} {names.KIND}s{named}; it has {listed}"
        raise ConfigurationError(msg, remedy="choose a file with the job, or its name with --name")
    return chosen[0]


def project_of(
    body: Mapping[str, Any],
    *,
    folder: Path,
    environ: Mapping[str, str],
    file: Path | None = None,
    others: list[Mapping[str, Any]] | None = None,
    namespace: str = "default",
) -> Project:
    """The project of a resource.

    :param folder: with its kustomization and modules.
    :param file: that it was read from, with ``others`` in it; None for a resource of no file.
    :raises ConfigurationError: see :func:`read_project`.
    """
    desired, job = judged(body, namespace)
    found, watched = _code(job.spec.transform, folder, others or [])
    environment, unset = _variables(desired, environ)
    return Project(
        job=job,
        files=found,
        watched=(*((file,) if file else ()), *watched),
        environment=environment,
        unset=unset,
        spark_conf=desired.workload.spark_conf,
    )


def judged(body: Mapping[str, Any], namespace: str) -> tuple[DesiredJob, Job]:
    """The job of a resource that API server and operator accept; else the refusal.

    :raises ConfigurationError: with the operator's message and remedy, or the fields that no job has. ``kubectl
        apply`` refuses those.
    """
    if body.get("apiVersion") != API_VERSION:
        msg = f"apiVersion {body.get('apiVersion')!r} is not known; set apiVersion: {API_VERSION}"
        raise ConfigurationError(msg, remedy="")
    unknown = [*unknown_fields((JobSpec, OperatorSpec), body, names.KIND)]
    if unknown:
        raise ConfigurationError("; ".join(unknown), remedy="")
    identity = identity_of(body, namespace)
    try:
        _check_metadata(Fields(body.get("metadata"), "metadata"))
        desired = accepted_job({} if (spec := body.get("spec")) is None else spec, job=identity, settings=SETTINGS)
    except ConfigurationError as error:
        raise ConfigurationError(_refusal(error, identity), remedy="") from error
    job = Job(
        namespace=identity.namespace, name=identity.name, uid=identity.uid or _UID, generation=1, attempt=1,
        spec=desired.spec,
    )  # fmt: skip
    return desired, job


def engine_of(body: Mapping[str, Any], job: Job) -> tuple[Engine, str]:
    """The engine of a job, and why: a person who has not set the field learns that it has a default.

    :param body: of the resource that the job was read from.
    """
    engine, reason = chosen_engine(job.spec)
    is_default = "engine" not in body["spec"] and job.spec.engine is not Engine.AUTO
    return engine, "the default of spec.engine" if is_default else reason


def _check_metadata(meta: Fields) -> None:
    """:raises ConfigurationError: no API server takes a job with them."""
    problem = names.job_name_problem(meta.string("name"))
    if problem:
        raise ConfigurationError(problem, remedy="")
    meta.string("namespace", "")
    meta.string_map("labels")
    meta.string_map("annotations")


def _refusal(error: ConfigurationError, job: JobIdentity) -> str:
    """The operator's message. Its command for a field that cannot work is for jobs of a cluster."""
    return error.message if error.remedy == error.default_remedy else refusal_of(error, job)


def _code(transform: Transform, folder: Path, others: list[Mapping[str, Any]]) -> tuple[Files, tuple[Path, ...]]:
    """The job's modules, and the files that say where they are.

    In this order: a ConfigMap of the same file; a generated ConfigMap of the folder's kustomization; the folder itself.

    :raises ConfigurationError: the job names a ConfigMap, and none of these has the module.
    """
    function = transform.function or transform.arrow.name
    if not function:
        return {}, ()
    for other in others:
        if other.get("kind") == "ConfigMap" and name_of(other) == transform.code:
            return dict(Fields(other, f"ConfigMap {transform.code}").string_map("data")), ()
    for name in KUSTOMIZATION:
        if transform.code and (folder / name).is_file():
            generated = _generated(folder / name, transform.code)
            if generated:
                return generated, (folder / name,)
    module = function.partition(":")[0].partition(".")[0]
    if (folder / f"{module}.py").is_file():
        return {path.name: path for path in sorted(folder.glob("*.py")) if not _is_test(path.name)}, ()
    if not transform.code:
        return {}, ()
    msg = f"no ConfigMap {transform.code!r} of spec.transform is in the file, and {folder} has no {module}.py"
    remedy = (
        f"put {module}.py next to the file of the job, or add the ConfigMap to the file, or to configMapGenerator of"
        " kustomization.yaml"
    )
    raise ConfigurationError(msg, remedy=remedy)


def _generated(kustomization: Path, config_map: str) -> Files:
    """The files of a ConfigMap that ``kubectl apply -k`` makes; empty if the kustomization has no such ConfigMap."""
    found: dict[str, Path | str] = {}
    for body in objects(str(kustomization)):
        where = Fields(body, str(kustomization))
        for index, generator in enumerate(where.objects("configMapGenerator")):
            if generator.get("name") == config_map:
                for entry in Fields(generator, f"{kustomization}.configMapGenerator[{index}]").strings("files"):
                    key, _, path = entry.rpartition("=")
                    found[key or Path(path).name] = kustomization.parent / path
    missing = [str(path) for path in found.values() if isinstance(path, Path) and not path.is_file()]
    if missing:
        msg = f"{kustomization} names files that do not exist: {', '.join(missing[:_SHOWN])}"
        raise ConfigurationError(msg, remedy=f"correct configMapGenerator of {kustomization}")
    return found


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test.py") or name in {"conftest.py", "setup.py"}


def _variables(desired: DesiredJob, environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    values: dict[str, str] = {}
    unset: dict[str, None] = {}
    for variable in _all_variables(desired):
        name = str(variable["name"])
        if "value" in variable:
            values[name] = str(variable["value"])
        elif name not in environ:
            unset[name] = None
    return values, tuple(unset)


def _all_variables(desired: DesiredJob) -> Iterator[Mapping[str, Any]]:
    yield from desired.workload.driver.env
    yield from desired.workload.executor.env
