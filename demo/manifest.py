"""The example's manifests, with the addresses and the image of the running cluster."""

from __future__ import annotations

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
