"""A throw-away broker that asks for a password, on an address that pods reach."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import NewTopic

from localcluster.kafka.broker import Broker
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.kafka.properties import Listener
from localcluster.machine.ports import free_ports
from localcluster.progress import Progress
from localcluster.settings import Settings
from tests.support.kafka.topics import create_topics

USER = "streaming"
PASSWORD = "correct horse"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SaslBroker:
    """SASL PLAIN for clients, nothing between the broker and itself as controller; a context manager."""

    def __init__(self, folder: Path, *, pods_host: str, password: str = PASSWORD) -> None:
        settings = Settings.from_environment()
        distribution = KafkaDistribution.of(settings)
        distribution.fetch(settings, Progress())
        host_port, pods_port, controller_port = free_ports(3)
        login = f'{_MODULE} required username="{USER}" password="{password}" user_{USER}="{password}";'
        self.login = {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER,
            "sasl.password": password,
        }  # fmt: skip
        """Properties of a client."""
        self.bootstrap = f"127.0.0.1:{host_port}"
        self.bootstrap_pods = f"{pods_host}:{pods_port}"
        self._broker = Broker(
            folder,
            distribution=distribution,
            listeners=[Listener("HOST", "127.0.0.1", host_port), Listener("PODS", pods_host, pods_port)],
            controller_port=controller_port,
            overrides={
                "listener.security.protocol.map": "HOST:SASL_PLAINTEXT,PODS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.host.plain.sasl.jaas.config": login,
                "listener.name.pods.plain.sasl.jaas.config": login,
            },
        )

    def __enter__(self) -> Self:
        self._broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broker.stop()

    def create_topics(self, *names: str) -> None:
        """Topics of four partitions, made with the right password."""
        create_topics(self.bootstrap, *(NewTopic(name, 4, 1) for name in names), **self.login)
