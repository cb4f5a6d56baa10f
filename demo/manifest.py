"""The example's manifests, with the addresses and the image of the running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from clusterjob.environment import ClusterEnvironment
from clusterjob.installation import IMAGE_OF
from localcluster.settings import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "flights"
ENGINES = {"micro-batch": "job.yaml", "continuous": "continuous.yaml"}
"""The example's manifest for each engine; both have the same names and the same result."""


def flights_job(environment: ClusterEnvironment, engine: str) -> dict[str, Any]:
    """The example's resource with this cluster's broker and image.

    :param engine: a key of :data:`ENGINES`.
    """
    job: dict[str, Any] = yaml.safe_load((EXAMPLE / ENGINES[engine]).read_text(encoding="utf-8"))
    job["spec"]["kafka"]["bootstrapServers"] = environment.bootstrap_pods
    job["spec"]["image"] = IMAGE_OF["sparkapp"]
    return job


def write_project(folder: Path, environment: ClusterEnvironment, engine: str) -> Path:
    """Writes the job with its code as a folder that ``kubectl apply -k`` takes; returns the file of the code.

    A file that exists stays: a person may have edited it.
    """
    job = flights_job(environment, engine)
    (name, text), *_ = code_config_map(job)["data"].items()
    (transform,) = job["spec"]["transform"].values()
    generator = {"name": transform["configMapRef"]["name"], "files": [name]}
    kustomization = {
        "resources": ["job.yaml"], "configMapGenerator": [generator],
        "generatorOptions": {"disableNameSuffixHash": True},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "job.yaml": yaml.safe_dump(job, sort_keys=False), name: text,
        "kustomization.yaml": yaml.safe_dump(kustomization, sort_keys=False),
    }  # fmt: skip
    for file, content in contents.items():
        if not (folder / file).exists():
            (folder / file).write_text(content, encoding="utf-8")
    return folder / str(name)


def code_config_map(job: dict[str, Any]) -> dict[str, Any]:
    """The ConfigMap that the resource names, with the example's code."""
    (transform,) = job["spec"]["transform"].values()
    code = EXAMPLE / f"{transform['function'].partition(':')[0]}.py"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": transform["configMapRef"]["name"]},
        "data": {code.name: code.read_text(encoding="utf-8")},
    }
