"""A watch that notes when it has seen what for the first time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.kubernetes.api_client import ApiClient


class FirstSeen:
    """Watches a collection in a thread of its own.

    :param path: of the collection. :param wanted: gives the job that an object concerns; empty for none.
    :ivar at: monotonic seconds by job.
    """

    def __init__(self, api: ApiClient, path: str, wanted: Callable[[Mapping[str, Any]], str]) -> None:
        self._api, self._path, self._wanted = api, path, wanted
        self.at: dict[str, float] = {}
        self._ended = threading.Event()
        self._version = str(api.call("GET", f"{path}?limit=1")["metadata"]["resourceVersion"])
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The watch ends with its next event, or with its time."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            for line in self._api.stream(f"{self._path}?watch=1&resourceVersion={self._version}&timeoutSeconds=60"):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    msg = f"the watch of {self._path} ends: {event['object'].get('message')}"
                    raise RuntimeError(msg)
                self._version = event["object"]["metadata"]["resourceVersion"]
                job = self._wanted(event["object"])
                if job:
                    self.at.setdefault(job, time.monotonic())
                if self._ended.is_set():
                    return
