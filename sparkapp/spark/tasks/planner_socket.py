"""The connection between the engine's planner and Spark's stream-reader process.

Spark runs a Python source's offset methods in a separate process. The planner fixes splits in the driver's process,
where the document is. So the reader asks the planner over a Unix socket that only this user can open. A key protects
it, in a file of the same folder that only this user can read. Spark prints a source's options in plans, and an error
with a plan reaches the log and the status. So the key is no option.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any, Protocol

from sparkapp.model.checkpoint.split import KafkaPartitionSplit

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SubtaskSplits:
    """The splits that a subtask reads in a micro-batch."""

    subtask: int
    splits: tuple[KafkaPartitionSplit, ...]


class Planner(Protocol):
    """The engine's side. Plan numbers are Spark's offsets; the plans themselves stay in the driver."""

    def initial(self) -> int:
        """The plan number after which the attempt starts."""
        ...

    def latest(self, start: int, reader: int) -> int:
        """A new plan number if a checkpoint is due and has records, else ``start``.

        :param reader: number of the reader that asks. A transform that joins the source with itself has several
            readers, and each batch takes an answer to each of them.
        """
        ...

    def partitions(self, start: int, end: int) -> tuple[Sequence[SubtaskSplits], frozenset[str]]:
        """The work between two plans, an entry for each task, and the columns that the transform uses."""
        ...

    def progress(self) -> Mapping[str, int]:
        """Numbers for Spark's own progress reports."""
        ...


def _key_file(address: str) -> Path:
    return Path(address).with_suffix(".key")


class PlannerServer:
    """Serves a planner to Spark's reader process, with a daemon thread for each connection.

    :param directory: where the socket is created; must be private to this user.
    """

    def __init__(self, planner: Planner, *, directory: Path) -> None:
        self._planner = planner
        self.address = str(directory / "planner.sock")
        key = secrets.token_bytes(32)
        file = _key_file(self.address)
        file.touch(mode=0o600)
        file.write_bytes(key)
        self._listener = Listener(self.address, family="AF_UNIX", authkey=key)
        threading.Thread(target=self._accept, name="planner", daemon=True).start()

    def close(self) -> None:
        """Takes no further connection."""
        self._listener.close()

    def _accept(self) -> None:
        for reader in itertools.count():
            try:
                connection = self._listener.accept()
            except Exception as error:  # closed, or a process without the key
                if isinstance(error, OSError):
                    return
                LOG.warning("planner socket refused a connection: %r", error)
                continue
            threading.Thread(
                target=self._serve, args=(connection, reader), name="planner-connection", daemon=True
            ).start()

    def _serve(self, connection: Any, reader: int) -> None:
        calls: dict[str, Callable[..., Any]] = {
            "initial": self._planner.initial,
            "latest": partial(self._planner.latest, reader=reader),
            "partitions": self._planner.partitions,
            "progress": self._planner.progress,
        }
        while True:
            try:
                name, arguments = connection.recv()
            except (EOFError, OSError):
                return
            try:
                answer = (True, calls[name](*arguments))
            except Exception as error:  # carried to the caller, which raises it there
                LOG.exception("planner failed to answer %s", name)
                answer = (False, f"{type(error).__module__}.{type(error).__qualname__}: {error}")
            connection.send(answer)


class PlannerClient:
    """The reader's side; connects on first use, because Spark pickles the reader before it calls it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_address": self._address, "_connection": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def call(self, name: str, *arguments: Any) -> Any:
        """Asks the planner.

        :param name: of a method of :class:`Planner`.
        :raises RuntimeError: the planner failed, with its error as text. The engine keeps the error itself.
        """
        if self._connection is None:
            key = _key_file(self._address).read_bytes()
            self._connection = Client(self._address, family="AF_UNIX", authkey=key)
        self._connection.send((name, arguments))
        good, answer = self._connection.recv()
        if not good:
            raise RuntimeError(answer)
        return answer

    def close(self) -> None:
        """Closes the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
