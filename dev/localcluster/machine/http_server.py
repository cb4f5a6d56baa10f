"""A program that answers HTTP on this machine, for the tests that start it."""

from __future__ import annotations

import http.client
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from localcluster.machine.processes import Identity, spawn
from localcluster.machine.waiting import wait_for

_STOP_SECONDS = 20.0


class HttpServer(ABC):
    """A server on a port of this machine; it starts and ends with the block.

    :param directory: of its log.
    :param port: at which it is asked. :param host: the address at which it is asked.
    :raises SetupError: it does not start.
    """

    title: ClassVar[str]
    """For the message of a server that does not start, with its article."""
    log_name: ClassVar[str]
    ready_path: ClassVar[str]
    """Answers with status 200 once the server is ready."""
    start_seconds: ClassVar[float]

    def __init__(self, directory: Path, port: int, *, host: str = "127.0.0.1") -> None:
        self.port, self.host = port, host
        self._directory = directory
        self._process: Identity | None = None

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """The program with its arguments."""

    def _environment(self) -> Mapping[str, str] | None:
        """The program's variables; None for those of this process."""
        return None

    def answers(self) -> bool:
        """Whether it answers at :attr:`ready_path`."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request("GET", self.ready_path)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def __enter__(self) -> Self:
        log = self._directory / self.log_name
        self._process = spawn(self._command(), log, cwd=self._directory, environment=self._environment())
        try:
            wait_for(f"{self.title} answers", self.answers, seconds=self.start_seconds, process=self._process, log=log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends it like a crash: nobody reads its content again."""
        self._end()

    def _end(self) -> None:
        if self._process is not None and self._process.send(signal.SIGKILL):
            self._process.wait_until_gone(_STOP_SECONDS)
