"""Which kind of cluster this machine gets."""

from __future__ import annotations

import os
from typing import Protocol

from localcluster import kind, state
from localcluster.cluster import LocalCluster
from localcluster.errors import SetupError
from localcluster.images import Image
from localcluster.progress import Progress
from localcluster.settings import Settings

LOCAL = "local"
KIND = "kind"


class Cluster(Protocol):
    """What the commands need of a cluster, whatever it is made of."""

    def prepare(self) -> None:
        """Makes what takes minutes on a fresh machine; starts no cluster."""

    def up(self) -> dict[str, str]:
        """Brings up what is not up; returns the content of the env file."""

    def is_up(self) -> bool:
        """Whether everything answers."""

    def down(self) -> None:
        """Ends everything."""

    def status(self) -> list[tuple[str, str, str]]:
        """Rows of name, condition and where its log is."""

    def publish(self, image: Image) -> str:
        """Builds an image if need be and makes it known to the nodes; returns its digest."""


def choose(settings: Settings, progress: Progress) -> Cluster:
    """The cluster that runs, else the one that ``KAFKASPARK_CLUSTER`` asks for, else the one this machine can have.

    :raises SetupError: ``KAFKASPARK_CLUSTER`` has a value that means nothing.
    """
    wanted = os.environ.get("KAFKASPARK_CLUSTER") or state.read_env_file(settings).get("KAFKASPARK_CLUSTER")
    if wanted not in {None, LOCAL, KIND}:
        raise SetupError(f"KAFKASPARK_CLUSTER is {wanted!r}", hint=f"set it to {LOCAL} or {KIND}, or leave it out")
    if wanted == KIND or (wanted is None and kind.is_available()):
        return kind.KindCluster(settings, progress)
    return LocalCluster(settings, progress)
