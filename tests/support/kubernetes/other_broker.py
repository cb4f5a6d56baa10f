"""A broker beside that of the local cluster, which pods reach, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from clusterjob.environment import ClusterEnvironment
from localcluster.kafka.broker import Broker
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.kafka.properties import Listener
from localcluster.machine.ports import free_ports
from localcluster.settings import NETWORK, Settings


@contextmanager
def beside_another_broker(
    cluster: ClusterEnvironment, folder: Path, *, overrides: Mapping[str, str] | None = None
) -> Iterator[ClusterEnvironment]:
    """The Kubernetes cluster with the addresses of a broker that ends with the block.

    :param folder: of the broker. :param overrides: of its properties.
    """
    host, pods, controller = free_ports(3)
    broker = Broker(
        folder,
        distribution=KafkaDistribution.of(Settings.from_environment()),
        listeners=[Listener("HOST", "127.0.0.1", host), Listener("PODS", NETWORK.node_ip, pods)],
        controller_port=controller,
        overrides=overrides,
    )
    with broker:
        yield replace(cluster, bootstrap=broker.bootstrap, bootstrap_pods=broker.listeners[1].address)
