"""The cluster's Kafka broker, together with Kubernetes or alone."""

from __future__ import annotations

from pathlib import Path

from localcluster.kafka.broker import Broker
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.kafka.properties import Listener
from localcluster.settings import NETWORK, Settings


def describe(settings: Settings) -> Broker:
    """The broker as it should run now. It has a listener for pods where the bridge to them exists."""
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
