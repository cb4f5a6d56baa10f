"""Following objects as they change, so that waiting and measuring need no polling."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from demo.kubectl import Kubectl, Object
from localcluster.errors import SetupError


class TimedOut(SetupError):
    """Something did not become true in time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One state of an object and when it was seen, on the clock of :func:`time.monotonic`."""

    at: float
    object: Object


class Watch:
    """Every change of one object, by ``kubectl get --watch`` in the background; a context manager.

    :param kubectl: with the namespace of the object.
    """

    def __init__(self, kubectl: Kubectl, kind: str, name: str) -> None:
        self._kubectl = kubectl
        self._what = f"{kind}/{name}"
        self._arguments = ("get", kind, f"--field-selector=metadata.name={name}", "--watch", "--output=json")
        self._seen: list[Seen] = []
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, name=f"watch {self._what}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        process = self._process
        if process is not None:
            process.kill()
        self._thread.join(timeout=10)

    @property
    def seen(self) -> list[Seen]:
        """Every state so far, oldest first."""
        with self._changed:
            return list(self._seen)

    @property
    def latest(self) -> Object | None:
        """The newest state, or None before the first one."""
        with self._changed:
            return self._seen[-1].object if self._seen else None

    def wait_for(self, what: str, condition: Callable[[Object], bool], *, seconds: float) -> Seen:
        """Blocks until the object satisfies the condition; the current state counts.

        :raises TimedOut: naming ``what`` and the last state seen.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                if self._seen and condition(self._seen[-1].object):
                    return self._seen[-1]
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(f"{self._what}: {what}: not within {seconds:.0f} s; {self._shown()}")
                self._changed.wait(left)

    def _shown(self) -> str:
        if not self._seen:
            return "it was never seen"
        status = self._seen[-1].object.get("status", {})
        return f"last seen: state {status.get('state')}, reason {status.get('reason')}, {status.get('message')}"

    def _follow(self) -> None:
        # The API server ends every watch after a while; a new one begins with the present state.
        while not self._closed.is_set():
            self._process = subprocess.Popen(
                self._kubectl.command(*self._arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=self._kubectl.process_environment(),
            )  # fmt: skip
            assert self._process.stdout is not None
            if self._closed.is_set():
                self._process.kill()
            for document in documents(self._process.stdout):
                self._add(document)
            self._process.wait()
            self._closed.wait(0.2)

    def _add(self, document: Object) -> None:
        with self._changed:
            self._seen.append(Seen(time.monotonic(), document))
            self._changed.notify_all()


def documents(lines: Iterable[str]) -> Iterator[Object]:
    """The JSON objects of kubectl's output, each as soon as its last line is there."""
    collected: list[str] = []
    for line in lines:
        collected.append(line)
        if line.rstrip("\n") == "}":
            yield json.loads("".join(collected))
            collected.clear()
