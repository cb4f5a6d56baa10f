"""The addresses of the cluster of ``make cluster-up``. Demo and tests use that cluster and no other cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from localcluster import state
from localcluster.errors import SetupError
from localcluster.settings import Settings

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEnvironment:
    """The addresses and programs of one local cluster, as its env file names them.

    :param kubeconfig: given to every kubectl and helm explicitly, so that a person's own context is never used.
    :param bootstrap: Kafka as this machine reaches it.
    :param bootstrap_pods: Kafka as pods reach it.
    :param logs: the folder where the cluster's processes log.
    :param network_policies: whether the cluster enforces NetworkPolicies.
    """

    kubeconfig: Path
    kubectl: str
    helm: str
    bootstrap: str
    bootstrap_pods: str
    logs: Path
    network_policies: bool

    @classmethod
    def of(cls, values: Mapping[str, str], *, source: str) -> ClusterEnvironment:
        """Reads the values of an env file.

        :param source: what the values came from, for the message.
        :raises SetupError: a value is missing, which means that the cluster is not up.
        """
        try:
            return cls(
                kubeconfig=Path(values["KUBECONFIG"]),
                kubectl=values["KAFKASPARK_KUBECTL"],
                helm=values["KAFKASPARK_HELM"],
                bootstrap=values["KAFKASPARK_BOOTSTRAP"],
                bootstrap_pods=values["KAFKASPARK_BOOTSTRAP_PODS"],
                logs=Path(values["KAFKASPARK_LOGS"]),
                network_policies=values["KAFKASPARK_NETWORK_POLICIES"] == "enforced",
            )
        except KeyError as missing:
            raise SetupError(f"{source} has no value {missing}", hint="start the cluster: make cluster-up") from missing

    @classmethod
    def load(cls, settings: Settings | None = None) -> ClusterEnvironment:
        """The cluster that runs on this machine.

        :raises SetupError: no cluster runs, or its kubeconfig names an API server on another machine.
        """
        used = settings if settings is not None else Settings.from_environment()
        environment = cls.of(state.read_env_file(used), source=str(used.env_file))
        environment.refuse_foreign_cluster()
        return environment

    def refuse_foreign_cluster(self) -> None:
        """The context guard: Kubernetes and Kafka must both be on this machine's loopback address.

        :raises SetupError: an address is of another machine, or the kubeconfig is missing.
        """
        for server in _servers(self.kubeconfig):
            if urlsplit(server).hostname not in _LOOPBACK:
                raise SetupError(
                    f"the API server of {self.kubeconfig} is not on this machine: {server}; nothing was changed",
                    hint="run the demo and the end-to-end tests on the cluster of: make cluster-up",
                )
        host = self.bootstrap.rpartition(":")[0]
        if host not in _LOOPBACK:
            raise SetupError(f"the Kafka broker is not on this machine: {self.bootstrap}; nothing was changed")

    def process_environment(self) -> dict[str, str]:
        """The environment of kubectl and helm: this process's, with the cluster's kubeconfig and without a proxy."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_PROXY": "127.0.0.1,localhost"}


def _servers(kubeconfig: Path) -> list[str]:
    # A single key of a file that localcluster wrote: no YAML library is needed.
    try:
        lines = kubeconfig.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SetupError(f"{kubeconfig} cannot be read: {error}", hint="start the cluster: make cluster-up") from error
    stripped = (line.strip().removeprefix("- ").replace('"', "").rstrip(",") for line in lines)
    servers = [line.partition(":")[2].strip() for line in stripped if line.startswith("server:")]
    if not servers:
        raise SetupError(f"{kubeconfig} names no API server", hint="start the cluster: make cluster-up")
    return servers
