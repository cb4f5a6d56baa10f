"""A broker's configuration: its addresses, and defaults for a single small broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_NODE_ID = "1"
_DEFAULTS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": _NODE_ID,
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.max.timeout.ms": "900000",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker serves again only when its previous session has expired, which is 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass(frozen=True)
class Listener:
    """An address of the broker, with its name in the configuration."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, as in a client's ``bootstrap.servers``."""
        return f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> str:
        """``name://host:port``, as in the broker's configuration."""
        return f"{self.name}://{self.address}"


def values(
    listeners: Sequence[Listener], controller: Listener, data: Path, overrides: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The properties of a broker that is its own controller; ``overrides`` replace any of them."""
    clients = ",".join(listener.endpoint for listener in listeners)
    return {
        **_DEFAULTS,
        "listeners": f"{clients},{controller.endpoint}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": ",".join(
            f"{listener.name}:PLAINTEXT" for listener in (*listeners, controller)
        ),
        "inter.broker.listener.name": listeners[0].name,
        "controller.listener.names": controller.name,
        "controller.quorum.voters": f"{_NODE_ID}@{controller.address}",
        "log.dirs": str(data),
        **(overrides or {}),
    }


def render(
    listeners: Sequence[Listener], controller: Listener, data: Path, overrides: Mapping[str, str] | None = None
) -> str:
    """The properties as the text of a configuration file."""
    return "".join(f"{key}={value}\n" for key, value in values(listeners, controller, data, overrides).items())
