"""The folders, addresses and versions of the local cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.36.3"
HELM_VERSION = "v4.3.1"
KAFKA_VERSION = "4.3.1"
"""Of the brokers of the cluster, of benches and of tests, unless :attr:`Settings.kafka_version` says otherwise."""

PACKAGE_ROOT = Path(__file__).resolve().parent
REPOSITORY = PACKAGE_ROOT.parent.parent


@dataclass(frozen=True)
class Settings:
    """Paths of a local cluster. The command line creates them once and passes them on.

    ``cache`` holds programs, jars and image layers, which are expensive to build and never change. ``state`` holds the
    cluster itself and can be deleted. ``run`` holds sockets and mounts, which a reboot removes. ``kafka_version`` is
    that of brokers of tests.
    """

    cache: Path
    state: Path
    run: Path
    kafka_version: str = KAFKA_VERSION

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Reads ``KAFKASPARK_CACHE`` and ``KAFKASPARK_STATE``. Both have defaults for root and for other users.

        ``KAFKASPARK_KAFKA_VERSION`` is another version of the brokers.
        """
        environ = os.environ if environment is None else environment
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        is_root = os.geteuid() == 0
        cache = environ.get("KAFKASPARK_CACHE") or str(home / ".cache" / "kafkaspark")
        state = environ.get("KAFKASPARK_STATE") or (
            "/var/lib/kafkaspark" if is_root else str(home / ".local" / "state" / "kafkaspark")
        )
        # Bridge and ports are fixed: a machine has at most one cluster. Paths of unix sockets have to be short.
        run = "/run/kafkaspark" if is_root else f"{state}/run"
        version = environ.get("KAFKASPARK_KAFKA_VERSION") or KAFKA_VERSION
        return cls(cache=Path(cache).resolve(), state=Path(state).resolve(), run=Path(run), kafka_version=version)

    @property
    def logs(self) -> Path:
        """A file for every daemon and every slow step, and the pods' logs."""
        return self.state / "log"

    @property
    def records(self) -> Path:
        """A file for every started process, by which a later command finds and stops it.

        It is not in the state folder, which a person may delete by hand while the processes run. A reboot removes the
        records with the processes.
        """
        return self.run / "processes"

    @property
    def volumes(self) -> Path:
        """Folders of the cluster's PersistentVolumes."""
        return self.state / "volumes"

    @property
    def programs(self) -> Path:
        """Folder for ``PATH`` with kubectl and helm of the cluster's own versions."""
        return self.state / "bin"

    @property
    def pki(self) -> Path:
        """Keys and certificates of the control plane."""
        return self.state / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, with embedded certificates."""
        return self.state / "kubeconfig"

    @property
    def env_file(self) -> Path:
        """``KEY=VALUE`` lines with the cluster's addresses, for the demo and the tests."""
        return self.state / "cluster.env"


@dataclass(frozen=True)
class Network:
    """The addresses of the cluster. All of them are on this machine, none is routed to another machine."""

    bridge: str = "kafkaspark0"
    pod_cidr: str = "10.88.0.0/16"
    pod_range_start: str = "10.88.1.1"
    node_ip: str = "10.88.0.1"
    service_cidr: str = "10.96.0.0/16"
    kubernetes_service_ip: str = "10.96.0.1"
    api_port: int = 16443
    etcd_client_port: int = 12379
    etcd_peer_port: int = 12380
    kafka_host_port: int = 19092
    kafka_controller_port: int = 19093
    kafka_pods_port: int = 19094

    @property
    def prefix_length(self) -> str:
        """The prefix length of the pods' network, as ``ip address`` writes it."""
        return self.pod_cidr.rpartition("/")[2]

    @property
    def api_url(self) -> str:
        """The API server as the host reaches it."""
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def kafka_host_bootstrap(self) -> str:
        """The broker as the host reaches it."""
        return f"127.0.0.1:{self.kafka_host_port}"

    @property
    def kafka_pods_bootstrap(self) -> str:
        """The broker as pods reach it; an address, because the cluster has no DNS."""
        return f"{self.node_ip}:{self.kafka_pods_port}"


NETWORK = Network()
NODE_NAME = "node1"
