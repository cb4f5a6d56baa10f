"""Follows objects as they change, so that waits and measurements need no polling."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clusterjob.background import Background
from clusterjob.kubectl import Kubectl, Object
from localcluster.errors import SetupError

PATIENCE = 600.0
"""Seconds after which a wait fails by default: longer than two starts of a job take on a busy machine."""

Objects = Mapping[str, Object]
"""The existing objects, by name."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A state of an object, and when it was seen, by :func:`time.monotonic`."""

    at: float
    object: Object


class TimedOut(SetupError):
    """A condition did not become true in time."""


class Watch(Background):
    """The objects of a kind, kept up to date by ``kubectl get --watch`` in the background; a context manager.

    :param kubectl: with the namespace of the objects.
    :param selection: a flag that narrows them, ``--selector=…`` or ``--field-selector=…``.
    """

    def __init__(self, kubectl: Kubectl, kind: str, selection: str) -> None:
        super().__init__(f"watch {kind} {selection}")
        self._kubectl = kubectl
        self._arguments = ("get", kind, selection, "--watch", "--output-watch-events", "--output=json")
        self._objects: dict[str, Object] = {}
        self._seen: list[Seen] = []
        self._changed = threading.Condition()
        self._process: subprocess.Popen[str] | None = None

    def _wake(self) -> None:
        if self._process is not None:
            self._process.kill()

    @property
    def objects(self) -> Objects:
        """The existing objects, by name."""
        with self._changed:
            return dict(self._objects)

    @property
    def seen(self) -> list[Seen]:
        """Every state of every object so far, oldest first."""
        with self._changed:
            return list(self._seen)

    def wait(self, what: str, condition: Callable[[Objects], bool], *, seconds: float = PATIENCE) -> Objects:
        """Blocks until the objects satisfy the condition, and returns them. It may be true already.

        :raises TimedOut: with ``what`` in the message.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition(self._objects):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(f"{what}: not within {seconds:.0f} s")
                self._changed.wait(left)
            return dict(self._objects)

    def _run(self) -> None:
        # The API server ends every watch after half an hour or more. A new watch begins with the existing objects.
        while not self._ending.is_set():
            self._process = subprocess.Popen(
                self._kubectl.command(*self._arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=self._kubectl.process_environment(),
            )  # fmt: skip
            assert self._process.stdout is not None
            if self._ending.is_set():
                self._process.kill()
            with self._changed:
                self._objects.clear()
            for line in self._process.stdout:  # one event a line
                self._apply(json.loads(line))
            self._process.wait()
            self._ending.wait(0.2)

    def _apply(self, event: Object) -> None:
        found = event["object"]
        with self._changed:
            if event["type"] == "DELETED":
                self._objects.pop(found["metadata"]["name"], None)
            elif event["type"] in {"ADDED", "MODIFIED"}:
                self._objects[found["metadata"]["name"]] = found
                self._seen.append(Seen(time.monotonic(), found))
            self._changed.notify_all()
