"""A real Kafka broker in KRaft mode: the cluster's broker, or a temporary broker for a test.

A test that breaks its own broker::

    with Broker.ephemeral(tmp_path, overrides={"log.retention.ms": "1000"}) as broker:
        produce_to(broker.bootstrap)
        broker.kill()       # like a crash
        broker.start()      # the same addresses and data
"""

from __future__ import annotations

import base64
import json
import shutil
import signal
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster.errors import SetupError
from localcluster.kafka import probe as kafka_probe
from localcluster.kafka import properties as kafka_properties
from localcluster.kafka.distribution import SHORT_LIVED, KafkaDistribution, java_environment
from localcluster.kafka.properties import Listener
from localcluster.machine.ports import free_ports
from localcluster.machine.processes import Identity, end, spawn
from localcluster.machine.waiting import wait_for
from localcluster.progress import Progress
from localcluster.settings import Settings

_START_SECONDS = 240.0
_STOP_SECONDS = 20.0
_CLOSING_SECONDS = 3.0
_FREEZE_SECONDS = 60.0


class Broker:
    """A broker with its data, log and process. After a kill it starts again with the same addresses."""

    def __init__(
        self,
        directory: Path,
        *,
        distribution: KafkaDistribution,
        listeners: Sequence[Listener],
        controller_port: int,
        overrides: Mapping[str, str] | None = None,
        heap: str = "512m",
        options: Sequence[str] = SHORT_LIVED,
        log: Path | None = None,
        record: Path | None = None,
    ) -> None:
        """Describes a broker; starts nothing.

        ``directory`` holds all files of the broker, and is kept. The first of ``listeners`` is :attr:`bootstrap`.
        ``overrides`` are properties that replace the defaults. ``options`` are the JVM's. ``log`` and ``record``, which
        identifies the process, are files in ``directory`` by default.
        """
        self.directory = directory
        self.log = log if log is not None else directory / "server.log"
        self.listeners = tuple(listeners)
        self._distribution = distribution
        self._controller = Listener("CONTROLLER", "127.0.0.1", controller_port)
        self._overrides = dict(overrides or {})
        self._heap = heap
        self._options = options
        self._record = record if record is not None else directory / "process.json"

    @classmethod
    def ephemeral(
        cls,
        directory: Path,
        *,
        overrides: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        heap: str = "512m",
        options: Sequence[str] = SHORT_LIVED,
    ) -> Self:
        """A broker for a test, on free loopback ports, with its data in ``directory``.

        :raises SetupError: Java, Maven or the jars cannot be installed.
        """
        used = settings if settings is not None else Settings.from_environment()
        distribution = KafkaDistribution.of(used)
        distribution.fetch(used, Progress())
        client_port, controller_port = free_ports(2)
        return cls(
            directory,
            distribution=distribution,
            listeners=[Listener("HOST", "127.0.0.1", client_port)],
            controller_port=controller_port,
            overrides=overrides,
            heap=heap,
            options=options,
        )

    @property
    def bootstrap(self) -> str:
        """The address for clients on this machine."""
        return self.listeners[0].address

    @property
    def process(self) -> Identity | None:
        """The broker's running process, started by any program, or None."""
        try:
            identity = Identity(**json.loads(self._record.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return identity if identity.is_running() else None

    def start(self, seconds: float = _START_SECONDS) -> Self:
        """Starts the broker, with its existing data, and waits until it answers.

        A running broker is restarted only if its configuration has changed.

        :raises SetupError: it ended, or did not answer in time, or another program listens at one of its ports.
        """
        process = self.process
        properties = self.directory / "server.properties"
        wanted = self._properties()
        if process is not None and not (properties.exists() and properties.read_text() == wanted):
            self.stop()
            process = None
        if process is None:
            self._refuse_taken_ports()
            self.directory.mkdir(parents=True, exist_ok=True)
            properties.write_text(wanted)
            if not self._data.exists():
                self._format()
            command: list[str | Path] = [*self._distribution.java(self._heap, self._options), "kafka.Kafka", properties]
            process = spawn(command, self.log, environment=java_environment())
            self._record.parent.mkdir(parents=True, exist_ok=True)
            self._record.write_text(json.dumps(asdict(process)))
        wait_for("Kafka answers", self.is_running, seconds=seconds, process=process, log=self.log)
        return self

    def stop(self) -> None:
        """Stops the broker cleanly, if it runs."""
        process = self.process
        if process is not None:
            end(process, _STOP_SECONDS)
        self._record.unlink(missing_ok=True)

    def kill(self) -> None:
        """Ends the broker like a crash: without a clean shutdown."""
        process = self.process
        if process is not None and process.send(signal.SIGKILL):
            process.wait_until_gone(_STOP_SECONDS)

    def pause(self) -> None:
        """Freezes the broker like a machine that hangs: connections stay open and nothing answers."""
        process = self.process
        if process is not None:
            process.freeze(_FREEZE_SECONDS)

    def resume(self) -> None:
        """Resumes a paused broker."""
        process = self.process
        if process is not None:
            process.send(signal.SIGCONT)

    def answers(self) -> bool:
        """Whether every listener answers requests, which a broker does once it is in service."""
        return all(kafka_probe.answers(listener.host, listener.port) for listener in self.listeners)

    def is_running(self) -> bool:
        """Whether this broker is in service, and not another broker at its addresses."""
        return self.process is not None and self.answers()

    def __enter__(self) -> Self:
        """Starts the broker."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the broker like a crash; nobody reads its directory again. A clean stop takes seconds of CPU."""
        self.resume()
        self.kill()
        self._record.unlink(missing_ok=True)

    def _refuse_taken_ports(self) -> None:
        # Otherwise the other program's answers could pass for those of a broker that did not start.
        for listener in (*self.listeners, self._controller):
            try:
                # The kernel closes the sockets of a killed broker a moment after the process has ended.
                wait_for("free", partial(kafka_probe.is_free, listener.host, listener.port), seconds=_CLOSING_SECONDS)
            except SetupError as taken:
                raise SetupError(
                    f"Kafka cannot start: another program listens at {listener.address}",
                    hint="stop that program; to find it, run: ss -tlnp",
                ) from taken

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _format(self) -> None:
        """Copies the formatted storage, and gives the broker its own cluster id.

        Clients distinguish clusters by the id alone.
        """
        unfinished = self._data.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(self._distribution.formatted_storage, unfinished)
        properties = unfinished / "meta.properties"
        lines = [line for line in properties.read_text().splitlines() if not line.startswith("cluster.id")]
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        properties.write_text("\n".join([*lines, f"cluster.id={cluster_id}", ""]))
        unfinished.replace(self._data)

    def _properties(self) -> str:
        return kafka_properties.render(self.listeners, self._controller, self._data, self._overrides)
