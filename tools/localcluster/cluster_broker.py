"""The cluster's own Kafka broker: with Kubernetes around it, or alone for tests that need no more."""

from __future__ import annotations

from pathlib import Path

from localcluster.kafka import Broker
from localcluster.kafka_distribution import KafkaDistribution
from localcluster.kafka_properties import Listener
from localcluster.settings import NETWORK, Settings


def describe(settings: Settings) -> Broker:
    """The broker as it should run now: it serves pods too when there is a bridge that leads to them."""
    listeners = [Listener("HOST", "127.0.0.1", NETWORK.kafka_host_port)]
    if Path("/sys/class/net", NETWORK.bridge).exists():
        listeners.append(Listener("PODS", NETWORK.node_ip, NETWORK.kafka_pods_port))
    return Broker(
        settings.state / "kafka",
        distribution=KafkaDistribution.of(settings),
        listeners=listeners,
        controller_port=NETWORK.kafka_controller_port,
        log=settings.logs / "kafka.log",
        record=settings.run / "kafka.json",
    )
