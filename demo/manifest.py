"""The example's manifests, with the addresses and the image of the running cluster."""

from __future__ import annotations

from typing import Any

import yaml

from clusterjob.environment import ClusterEnvironment
from clusterjob.installation import IMAGE_OF
from localcluster.settings import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "flights"
CODE = EXAMPLE / "delays.py"


def flights_job(environment: ClusterEnvironment) -> dict[str, Any]:
    """The resource of ``examples/flights/job.yaml`` with this cluster's broker and image."""
    job: dict[str, Any] = yaml.safe_load((EXAMPLE / "job.yaml").read_text(encoding="utf-8"))
    job["spec"]["kafka"]["bootstrapServers"] = environment.bootstrap_pods
    job["spec"]["image"] = IMAGE_OF["sparkapp"]
    return job


def code_config_map(job: dict[str, Any]) -> dict[str, Any]:
    """The ConfigMap that the resource names, with the example's code."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": job["spec"]["transform"]["python"]["configMapRef"]["name"]},
        "data": {CODE.name: CODE.read_text(encoding="utf-8")},
    }
