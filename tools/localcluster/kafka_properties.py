"""What a broker's configuration says: the addresses it serves at, and defaults that suit one small broker."""

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
    # A killed broker comes back only when the session of its former self has expired, which is 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass(frozen=True)
class Listener:
    """An address that the broker serves at, by the name the configuration knows it by."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, as a client's ``bootstrap.servers`` wants it."""
        return f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> str:
        """``name://host:port``, as the broker's configuration wants it."""
        return f"{self.name}://{self.address}"


def values(
    listeners: Sequence[Listener], controller: Listener, data: Path, overrides: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The properties of a broker that is its own controller; ``overrides`` win over everything else."""
    clients = ",".join(each.endpoint for each in listeners)
    return {
        **_DEFAULTS,
        "listeners": f"{clients},{controller.endpoint}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": ",".join(f"{each.name}:PLAINTEXT" for each in (*listeners, controller)),
        "inter.broker.listener.name": listeners[0].name,
        "controller.listener.names": controller.name,
        "controller.quorum.voters": f"{_NODE_ID}@{controller.address}",
        "log.dirs": str(data),
        **(overrides or {}),
    }


def render(
    listeners: Sequence[Listener], controller: Listener, data: Path, overrides: Mapping[str, str] | None = None
) -> str:
    """The same as the text of a configuration file."""
    return "".join(f"{key}={value}\n" for key, value in values(listeners, controller, data, overrides).items())
