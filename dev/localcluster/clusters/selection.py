"""Chooses the kind of cluster for this machine."""

from __future__ import annotations

import os
from typing import Protocol

from localcluster import state
from localcluster.clusters import kind
from localcluster.clusters.local import LocalCluster
from localcluster.errors import SetupError
from localcluster.images.builder import Image
from localcluster.progress import Progress
from localcluster.settings import Settings

LOCAL = "local"
KIND = "kind"


class Cluster(Protocol):
    """The operations that the commands need of a cluster."""

    def prepare(self) -> None:
        """Downloads and builds what the cluster needs; starts no cluster."""

    def up(self) -> dict[str, str]:
        """Starts what does not run; returns the content of the env file."""

    def is_up(self) -> bool:
        """Whether Kubernetes and Kafka answer."""

    def down(self) -> None:
        """Stops the cluster."""

    def status(self) -> list[tuple[str, str, str]]:
        """Rows of name, state and log."""

    def publish(self, image: Image) -> str:
        """Builds an image if it has changed and loads it into the nodes; returns its digest."""


def choose(settings: Settings, progress: Progress) -> Cluster:
    """The cluster that ``KAFKASPARK_CLUSTER`` names, else the running cluster, else the kind this machine supports.

    :raises SetupError: ``KAFKASPARK_CLUSTER`` has an unknown value.
    """
    wanted = os.environ.get("KAFKASPARK_CLUSTER") or state.read_env_file(settings).get("KAFKASPARK_CLUSTER")
    if wanted not in {None, LOCAL, KIND}:
        raise SetupError(
            f"KAFKASPARK_CLUSTER has an unknown value: {wanted!r}", hint=f"set it to {LOCAL} or {KIND}, or unset it"
        )
    if wanted == KIND or (wanted is None and kind.is_available()):
        return kind.KindCluster(settings, progress)
    return LocalCluster(settings, progress)
