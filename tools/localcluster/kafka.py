"""A real Kafka broker in KRaft mode: the cluster's own one, or a throw-away one for a test.

A test that wants a broker of its own, to break it::

    with Broker.ephemeral(tmp_path, overrides={"log.retention.ms": "1000"}) as broker:
        produce_to(broker.bootstrap)
        broker.kill()       # as a crash does
        broker.start()      # the same addresses and data
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster import kafka_jars, packages
from localcluster.commands import run
from localcluster.processes import Identity, end, spawn
from localcluster.progress import Progress
from localcluster.settings import Settings
from localcluster.waiting import wait_for

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_NODE_ID = "1"
_CLUSTER_ID = "a2Fma2FzcGFyay1sb2NhbA"  # 16 bytes in URL-safe base64, as Kafka wants its cluster ids
_API_VERSIONS = 18
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
    "log.message.timestamp.type": "CreateTime",
}


@dataclass(frozen=True)
class Listener:
    """An address that the broker serves clients at, by the name the configuration knows it by."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, as a client's ``bootstrap.servers`` wants it."""
        return f"{self.host}:{self.port}"


class Broker:
    """One broker, with its data, its log and its process; survives being killed, on the same addresses."""

    def __init__(
        self,
        directory: Path,
        *,
        jars: Path,
        listeners: Sequence[Listener],
        controller_port: int,
        overrides: Mapping[str, str] | None = None,
        heap: str = "512m",
        log: Path | None = None,
    ) -> None:
        """Describes a broker; starts nothing.

        ``directory`` holds everything of it, and is kept; ``jars`` comes from :func:`localcluster.kafka_jars.fetch`;
        the first of ``listeners`` is :attr:`bootstrap`; ``overrides`` are properties that win over the defaults.
        """
        self.directory = directory
        self.log = log if log is not None else directory / "server.log"
        self.listeners = tuple(listeners)
        self._jars = jars
        self._controller = Listener("CONTROLLER", "127.0.0.1", controller_port)
        self._overrides = dict(overrides or {})
        self._heap = heap
        self._record = directory / "process.json"

    @classmethod
    def ephemeral(
        cls,
        directory: Path,
        *,
        overrides: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        heap: str = "512m",
    ) -> Self:
        """A broker for one test, on free loopback ports, its data in ``directory`` (a test's temporary one).

        :raises SetupError: Java, Maven or the jars cannot be had.
        """
        used = settings if settings is not None else Settings.from_environment()
        if not kafka_jars.folder(used).exists():
            packages.ensure(packages.KAFKA, used, Progress())
        client_port, controller_port = free_ports(2)
        return cls(
            directory,
            jars=kafka_jars.fetch(used),
            listeners=[Listener("HOST", "127.0.0.1", client_port)],
            controller_port=controller_port,
            overrides=overrides,
            heap=heap,
        )

    @property
    def bootstrap(self) -> str:
        """What a client on this machine connects to."""
        return self.listeners[0].address

    @property
    def process(self) -> Identity | None:
        """The broker's running process, whoever started it, or None."""
        try:
            identity = Identity(**json.loads(self._record.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return identity if identity.is_running() else None

    def start(self, seconds: float = _START_SECONDS) -> Self:
        """Starts the broker, on its old data if it has any, and waits until it answers; a running one stays.

        :raises SetupError: it ended, or did not answer in time.
        """
        process = self.process
        properties = self.directory / "server.properties"
        changed = not properties.exists() or properties.read_text() != self.properties()
        if process is not None and changed:
            self.stop()
            process = None
        if process is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            properties.write_text(self.properties())
            self._format(properties)
            process = spawn([*self._java(), "kafka.Kafka", properties], self.log, environment=_java_environment())
            self._record.write_text(json.dumps(process.__dict__))
        hint = f"is another program on one of the ports {', '.join(each.address for each in self.listeners)}?"
        wait_for("Kafka answers", self.answers, seconds=seconds, process=process, log=self.log, hint=hint)
        return self

    def stop(self) -> None:
        """Ends the broker cleanly; nothing happens if it does not run."""
        process = self.process
        if process is not None:
            end(process, _STOP_SECONDS)
        self._record.unlink(missing_ok=True)

    def kill(self) -> None:
        """Ends the broker as a crash does: no clean shutdown, no time to write anything."""
        process = self.process
        if process is not None and process.send(signal.SIGKILL):
            process.wait_until_gone(_STOP_SECONDS)

    def pause(self) -> None:
        """Freezes the broker: connections stay open and nothing answers, as when a machine hangs."""
        process = self.process
        if process is not None:
            process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a paused broker go on."""
        process = self.process
        if process is not None:
            process.send(signal.SIGCONT)

    def answers(self) -> bool:
        """Whether every listener answers requests, which a broker does once it has caught up and is in service."""
        return all(_answers(listener) for listener in self.listeners)

    def properties(self) -> str:
        """The broker's configuration file."""
        clients = ",".join(f"{each.name}://{each.address}" for each in self.listeners)
        protocols = ",".join(f"{each.name}:PLAINTEXT" for each in (*self.listeners, self._controller))
        values = {
            **_DEFAULTS,
            "listeners": f"{clients},{self._controller.name}://{self._controller.address}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": self.listeners[0].name,
            "controller.listener.names": self._controller.name,
            "controller.quorum.voters": f"{_NODE_ID}@{self._controller.address}",
            "log.dirs": str(self.directory / "data"),
            **self._overrides,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def __enter__(self) -> Self:
        """Starts the broker."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the broker; its directory stays."""
        self.resume()
        self.stop()

    def _format(self, properties: Path) -> None:
        if (self.directory / "data" / "meta.properties").exists():
            return
        formatting = ["kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID, "--config", properties]
        # A second Java start for a small file: the interpreter and first compiler alone are fastest.
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        run([*self._java(quick), *formatting], log=self.directory / "format.log", environment=_java_environment())

    def _java(self, options: Sequence[str] = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")) -> list[str]:
        return [
            "java",
            f"-Xmx{self._heap}",
            *options,
            "-Djava.awt.headless=true",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
            "-cp",
            f"{self._jars}/*",
        ]


def free_ports(count: int) -> list[int]:
    """Different TCP ports of the loopback address that nothing listens at, at this moment."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _java_environment() -> dict[str, str]:
    # Options from the caller's environment would go to the broker and change what is tested.
    return {key: value for key, value in os.environ.items() if key not in {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"}}


def _answers(listener: Listener) -> bool:
    # An ApiVersions request, version 0, with no client id. An open port alone would say too little: the broker
    # listens before it is in service, and answers only then.
    request = struct.pack(">hhih", _API_VERSIONS, 0, 1, -1)
    try:
        with socket.create_connection((listener.host, listener.port), timeout=1) as connection:
            connection.settimeout(2)
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(8)) > 0
    except OSError:
        return False
